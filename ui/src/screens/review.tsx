// Access review: who can do what at a path, through which policy and line (contract E4).
import { useState } from 'preact/hooks';
import { useLoad } from '../lib/load.ts';
import { download } from '../lib/formats.ts';
import { route, setQuery } from '../lib/router.ts';
import { plural } from '../lib/time.ts';
import { Button, Card, Empty, Failed, Field, Loading, Note, Page, Select, LinkButton } from '../parts/ui.tsx';
import { href } from '../lib/router.ts';
import { Subjects, subjectsCsv, whoCan } from './review-list.tsx';

const CAPS = ['read', 'create', 'update', 'patch', 'delete', 'list', 'sudo'] as const;

export function Review() {
  const { query } = route.value;
  const path = query.get('path') ?? '';
  const cap = (query.get('cap') ?? 'read') as (typeof CAPS)[number];
  const [text, setText] = useState(path);
  const loaded = useLoad(path ? () => whoCan(path, cap) : undefined, [path, cap]);
  return (
    <Page title="Access review" sub="Everybody who can do this at this path, and through what." actions={<><LinkButton href={href('policies/simulate')} icon="wand">What can somebody reach?</LinkButton><Button icon="dl" disabled={!loaded.data} onClick={() => loaded.data && download(`access-${cap}.csv`, subjectsCsv(loaded.data), 'text/csv')}>CSV</Button></>}>
      <form class="row" onSubmit={(event) => { event.preventDefault(); setQuery({ path: text.replace(/^\/+/, ''), cap }, false); }}><Select label="May" value={cap} options={CAPS.map((one) => [one, one] as const)} onChange={(next) => setQuery({ cap: next })} /><div class="grow"><Field label="Path" value={text} onInput={setText} mono placeholder="secret/data/apps/payments/stripe" /></div><Button kind="primary" type="submit" icon="search" class="at-end">Review</Button></form>
      {!path ? <Card><Empty icon="search" title="Which path?">The path of the API, such as <span class="mono">secret/data/apps/payments/stripe</span>.</Empty></Card> : /unsupported path/.test(String(loaded.error)) ? <Card><Empty icon="search" title="This server has no access review" action={<LinkButton kind="primary" href={href('policies/simulate')} icon="wand">Simulate</LinkButton>}>The simulator says for one person, token or set of policies what it may do, and why.</Empty></Card> : loaded.error ? <Failed error={loaded.error} retry={loaded.reload} path="sys/kallisto/access/who" cap="sudo" /> : !loaded.data ? <Loading /> : <Card title={plural(loaded.data.length, 'subject')}><Subjects subjects={loaded.data} label={`Who may ${cap} ${path}`} /></Card>}
      <Note>Root tokens may do everything and are listed as such. A right through a template counts for whom the template names.</Note>
    </Page>
  );
}
