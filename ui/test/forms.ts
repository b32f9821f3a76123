// Every form of the page, and whether what it sends can be refused. The flow "forms: each was sent in a browser" fails where the sources have another form,
// where one was not sent, and where nobody saw its refusal. A local form asks the server nothing that could be refused: it goes, filters, or says yes.
export const FORMS: Record<string, 'refusable' | 'local'> = {
  'audit/enable': 'refusable', 'audit/filter': 'refusable', 'cluster/autopilot': 'refusable', 'cluster/join-token': 'local', compare: 'local', confirm: 'refusable', 'entities/merge': 'refusable',
  'generate-root/share': 'refusable', 'groups/edit': 'refusable', login: 'refusable', 'login/namespace': 'local', 'login/second-factor': 'refusable', 'logins/config': 'refusable',
  'logins/enable': 'refusable', 'logins/member': 'refusable', 'mounts/enable': 'refusable', 'mounts/tune': 'refusable', 'namespaces/metadata': 'refusable', 'namespaces/new': 'refusable',
  'namespaces/switch': 'local', 'namespaces/unlock': 'refusable', 'open/phrase': 'local', 'open/token': 'refusable', 'policy/new': 'refusable', 'policy/review': 'refusable', 'quotas/set': 'refusable',
  'rekey/begin': 'refusable', 'rekey/share': 'refusable', review: 'local', 'secret/conflict': 'local', 'secret/edit': 'local', 'secret/generate': 'refusable', 'secret/metadata': 'refusable', 'secret/new': 'local',
  'secret/review': 'refusable', 'secrets/delete': 'refusable', 'secrets/export': 'refusable', 'secrets/go': 'local', 'secrets/move': 'refusable', 'settings/cors': 'refusable', 'settings/header': 'refusable',
  'settings/page': 'refusable', 'sign-out': 'local', 'setup/join': 'refusable', 'setup/new': 'local', share: 'refusable', 'simulator/path': 'local', 'snapshots/schedule': 'refusable', 'tokens/new': 'refusable',
  'tools/api': 'refusable', 'tools/hash': 'local', 'tools/password': 'refusable', 'tools/random': 'refusable', 'tools/wrap': 'refusable', 'transit/bench': 'refusable', 'transit/limits': 'refusable',
  'transit/new': 'refusable', unseal: 'refusable',
};
