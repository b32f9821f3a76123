// The person's own menu: session, theme, density, keys, screen sharing, and the way out.
import { copy } from '../lib/clipboard.ts';
import { density, keysOn, sharing, theme } from '../lib/prefs.ts';
import { renew, secondsLeft, signOut } from '../lib/session.ts';
import { exact, span } from '../lib/time.ts';
import { me, namespace } from '../lib/state.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from './dialog.tsx';
import { Button, Check, Segments, Tag } from './ui.tsx';

/** Signs out; a pasted token is revoked only if one says so. */
export async function leave(): Promise<void> {
  const current = me.peek();
  let revoke = current?.isOurs ?? false;
  if (current && !current.isOurs && !current.isRoot) {
    revoke = await confirm({ title: 'Revoke the token too?', text: 'This token was pasted, not made by a login here. Revoking ends it everywhere, with all that it made.', action: 'Revoke it and sign out', danger: true });
  }
  await signOut(revoke);
  location.assign(`/ui/login${namespace.peek() ? `?ns=${encodeURIComponent(namespace.peek())}` : ''}`);
}

function Me({ close }: { close: () => void }) {
  const current = me.value;
  if (!current) return null;
  const left = secondsLeft(Date.now());
  return (
    <Sheet title={current.name} actions={<><Button icon="out" onClick={() => { close(); void leave(); }}>Sign out</Button><Button kind="primary" onClick={close}>Done</Button></>}>
      <dl class="kv">
        <dt>Session</dt><dd>{left === undefined ? 'does not end' : <>{span(left)} left <span class="dim">· until {exact(current.ends)}</span></>}{current.renewable && left !== undefined && <Button size="sm" onClick={() => void renew().then(() => toast('The session is longer now'), (error: Error) => toast(error.message))}>Renew</Button>}</dd>
        <dt>Policies</dt><dd class="caps">{current.policies.map((name) => <Tag>{name}</Tag>)}</dd>
        {current.path && <><dt>Signed in by</dt><dd class="mono">{current.path}</dd></>}
        {current.entityId && <><dt>Entity</dt><dd class="mono">{current.entityId}<Button kind="ghost" size="sm" icon="copy" label="Copy the entity's id" onClick={() => void copy(current.entityId, 'Entity')} /></dd></>}
        <dt>Accessor</dt><dd class="mono">{current.accessor || '–'}</dd>
        <dt>Theme</dt><dd><Segments label="Theme" value={theme.value ?? 'system'} options={[['system', 'System'], ['light', 'Light'], ['dark', 'Dark']]} onChange={(value) => { theme.value = value; }} /></dd>
        <dt>Rows</dt><dd><Segments label="Density" value={density.value ?? 'normal'} options={[['normal', 'Normal'], ['compact', 'Compact']]} onChange={(value) => { density.value = value; }} /></dd>
      </dl>
      <Check label="Keys of one letter" hint="j, k, r, c, e and others; ? lists them" checked={keysOn.value ?? true} onChange={(on) => { keysOn.value = on; }} />
      <Check label="Screen sharing" hint="hides names too, until it is switched off" checked={sharing.value} onChange={(on) => { sharing.value = on; }} />
    </Sheet>
  );
}

export const openMe = (): void => void open<void>((close) => <Me close={() => close()} />);
