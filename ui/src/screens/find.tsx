// All results of a search, over mounts, with what was searched.
import * as en from '../en/screens/find.ts';
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
  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== asked) setQuery({ q: text });
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const stop = new AbortController();
    setHits([]);
    setDone(undefined);
    setError(undefined);
    if (!asked.trim()) return;
    search(asked, { limit: LIMIT, signal: stop.signal, onHits: setHits }).then(
      setDone,
      (caught: unknown) => {
        if (!stop.signal.aborted) setError(caught);
      },
    );
    return () => stop.abort();
  }, [asked, namespace.value]);
  return (
    <Page title={en.find} sub={en.namesMetadataAndKeysOverEvery}>
      <Field
        label={en.what}
        value={text}
        onInput={setText}
        autofocus
        placeholder={en.stripe}
        mono
        hint={
          <>
            <span class="mono">owner:ada</span> {en.metadata} <span class="mono">due:&lt;30d</span>{' '}
            {en.toRotate} <span class="mono">key:DB_URL</span> {en.nameOfAKey}{' '}
            <span class="mono">in:secret/apps/</span> {en.folder}
          </>
        }
      />
      {error ? (
        <Failed error={error} />
      ) : !asked.trim() ? (
        <Empty icon="search" title={en.typeAPartOfAName} />
      ) : (
        <Card title={done ? en.found(count(hits.length), done.isCut ? '+' : '') : en.searching}>
          <ul class="links">
            {hits.map((hit) => (
              <li key={hit.place}>
                <a href={href(`s/${hit.place}`)}>
                  <Icon name={hit.place.endsWith('/') ? 'folder' : 'key'} />
                  <span class="mono grow">{visible(hit.place)}</span>
                </a>
              </li>
            ))}
          </ul>
          {!done && hits.length === 0 && <Loading rows={4} />}
          {done && hits.length === 0 && (
            <Empty icon="search" title={en.noNameMatches}>
              {en.searched(done.looked)}
            </Empty>
          )}
          {done && done.refused.length > 0 && (
            <div class="pad">
              <Note kind="warn" icon="lock">
                {en.couldNotBeSearched(plural(done.refused.length, en.mount))}{' '}
                <span class="mono">{done.refused.join(', ')}</span>
              </Note>
            </div>
          )}
        </Card>
      )}
    </Page>
  );
}
