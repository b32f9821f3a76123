// Access review: who can do what at a path, through which policy and line (contract E4).
import * as common from '../en/common.ts';
import * as en from '../en/screens/review.ts';
import { useState } from 'preact/hooks';
import { useLoad } from '../lib/load.ts';
import { download } from '../lib/download.ts';
import { route, setQuery } from '../lib/router.ts';
import { plural } from '../lib/time.ts';
import { Form } from '../parts/form.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  Field,
  Loading,
  Note,
  Page,
  Select,
  LinkButton,
} from '../parts/ui.tsx';
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
    <Page
      title={en.accessReview}
      sub={en.everybodyWhoCanDoThisAt}
      actions={
        <>
          <LinkButton href={href('policies/simulate')} icon="wand">
            {en.whatCanSomebodyReach}
          </LinkButton>
          <Button
            icon="dl"
            disabled={!loaded.data}
            onClick={() =>
              loaded.data && download(`access-${cap}.csv`, subjectsCsv(loaded.data), 'text/csv')
            }
          >
            {en.csv}
          </Button>
        </>
      }
    >
      <Form
        name="review"
        class="row"
        onSubmit={() => {
          setQuery({ path: text.replace(/^\/+/, ''), cap }, false);
        }}
      >
        <Select
          label={en.may}
          value={cap}
          options={CAPS.map((one) => [one, one] as const)}
          onChange={(next) => setQuery({ cap: next })}
        />
        <div class="grow">
          <Field
            label={common.path}
            value={text}
            onInput={setText}
            mono
            placeholder="secret/data/apps/payments/stripe"
          />
        </div>
        <Button kind="primary" type="submit" icon="search" class="at-end">
          {en.review}
        </Button>
      </Form>
      {!path ? (
        <Card>
          <Empty icon="search" title={en.whichPath}>
            {en.thePathOfTheApiSuch} <span class="mono">secret/data/apps/payments/stripe</span>.
          </Empty>
        </Card>
      ) : /unsupported path/.test(String(loaded.error)) ? (
        <Card>
          <Empty
            icon="search"
            title={en.thisServerHasNoAccessReview}
            action={
              <LinkButton kind="primary" href={href('policies/simulate')} icon="wand">
                {en.simulate}
              </LinkButton>
            }
          >
            {en.theSimulatorSaysForOnePerson}
          </Empty>
        </Card>
      ) : loaded.error ? (
        <Failed
          error={loaded.error}
          retry={loaded.reload}
          path="sys/kallisto/access/who"
          cap="sudo"
        />
      ) : !loaded.data ? (
        <Loading />
      ) : (
        <Card title={plural(loaded.data.length, en.subject)}>
          <Subjects subjects={loaded.data} label={en.whoMay(cap, path)} />
        </Card>
      )}
      <Note>{en.rootTokensMayDoEverythingAnd}</Note>
    </Page>
  );
}
