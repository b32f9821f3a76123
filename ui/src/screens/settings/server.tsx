// The server's own configuration, without a secret, and the versions it ran.
import { tryCall } from '../../lib/api.ts';
import { useLoad } from '../../lib/load.ts';
import { visibleText } from '../../lib/time.ts';
import { Card, Loading } from '../../parts/ui.tsx';

const ASKED: [string, string][] = [['Configuration', 'sys/config/state/sanitized'], ['Host', 'sys/host-info'], ['In flight', 'sys/in-flight-req'], ['Versions', 'sys/version-history']];
export function ServerSettings() {
  const loaded = useLoad(() => Promise.all(ASKED.map(async ([title, path]) => ({ title, path, data: (await tryCall(path.endsWith('history') ? 'LIST' : 'GET', path))?.data }))), []);
  if (!loaded.data) return <Loading />;
  return <>{loaded.data.map(({ title, path, data }) => <Card key={path} title={title} actions={<span class="dim mono">{path}</span>}>{data ? <pre class="json mono" tabIndex={0}>{visibleText(JSON.stringify(data, null, 2))}</pre> : <p class="pad soft">Not for this token, or not with this server.</p>}</Card>)}</>;
}
