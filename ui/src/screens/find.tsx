// All results of a search, over mounts, with what was searched.
import { useEffect, useState } from 'preact/hooks';
import { search, type Found, type Hit } from '../lib/search.ts';
import { href, route, setQuery } from '../lib/router.ts';
import { namespace } from '../lib/state.ts';
import { count, plural, visible } from '../lib/time.ts';
import { Icon } from '../parts/icons.tsx';
import { Card, Empty, Failed, Field, Loading, Note, Page } from '../parts/ui.tsx';

const LIMIT = 500;

export function Find() {
  const asked = route.value.query.get('q') ?? '';
  const [text, setText] = useState(asked);
  const [hits, setHits] = useState<Hit[]>([]);
  const [done, setDone] = useState<Found | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => { const timer = setTimeout(() => { if (text !== asked) setQuery({ q: text }); }, 250); return () => clearTimeout(timer); }, [text]);
  useEffect(() => {
    const stop = new AbortController();
    setHits([]); setDone(undefined); setError(undefined);
    if (!asked.trim()) return;
    search(asked, { limit: LIMIT, signal: stop.signal, onHits: setHits }).then(setDone, (caught: unknown) => { if (!stop.signal.aborted) setError(caught); });
    return () => stop.abort();
  }, [asked, namespace.value]);
  return (
    <Page title="Find" sub="Names, metadata and keys, over every mount that you reach. Values are never searched.">
      <Field label="What" value={text} onInput={setText} autofocus placeholder="stripe" mono hint={<><span class="mono">owner:ada</span> metadata · <span class="mono">due:&lt;30d</span> to rotate · <span class="mono">key:DB_URL</span> name of a key · <span class="mono">in:secret/apps/</span> folder</>} />
      {error ? <Failed error={error} /> : !asked.trim() ? <Empty icon="search" title="Type a part of a name" /> : (
        <Card title={done ? `${count(hits.length)}${done.isCut ? '+' : ''} found` : 'Searching…'}>
          <ul class="links">{hits.map((hit) => <li key={hit.place}><a href={href(`s/${hit.place}`)}><Icon name={hit.place.endsWith('/') ? 'folder' : 'key'} /><span class="mono grow">{visible(hit.place)}</span></a></li>)}</ul>
          {!done && hits.length === 0 && <Loading rows={4} />}
          {done && hits.length === 0 && <Empty icon="search" title="No name matches">{done.looked} searched.</Empty>}
          {done && done.refused.length > 0 && <div class="pad"><Note kind="warn" icon="lock">{plural(done.refused.length, 'mount')} could not be searched: <span class="mono">{done.refused.join(', ')}</span></Note></div>}
        </Card>
      )}
    </Page>
  );
}
