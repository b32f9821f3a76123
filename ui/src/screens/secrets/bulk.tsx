// What is done to one, several or a folder of secrets: move, copy, delete, delete for good, export. Each says what and how many first (`dry_run`),
// then is sent with that `count`, as one atomic request.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/bulk.ts';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import {
  apiPath,
  findPlace,
  lastSegment,
  parentOf,
  placeText,
  type Place,
} from '../../lib/place.ts';
import { pathFault } from '../../lib/paths.ts';
import { fromHere, go, href } from '../../lib/router.ts';
import { toast } from '../../lib/toasts.ts';
import { plural, visible } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Check, Field, FormError, Loading, Note, Segments } from '../../parts/ui.tsx';

const TYPED_FROM = 25;

/** Asks for a name and opens the editor on it. */
export function newSecret(place: Place): void {
  const New = ({ close }: { close: () => void }) => {
    const [name, setName] = useState('');
    // The longest of the paths by which the server will be asked for it.
    const path = apiPath({ ...place, path: place.path + name }, 'metadata');
    const wrong = /^\/|\/$/.test(name)
      ? en.aNameDoesNotBeginOr
      : name
        ? pathFault(path)
        : undefined;
    return (
      <Form
        name="secret/new"
        onSubmit={() => {
          if (name && !wrong) {
            close();
            void go(href(`s/${placeText(place)}${name}`, { tab: 'edit' }));
          }
        }}
      >
        <Sheet
          title={en.newSecret}
          actions={
            <>
              <Button onClick={close}>{common.cancel}</Button>
              <Button kind="primary" type="submit" disabled={!name || wrong !== undefined}>
                {common.goOn}
              </Button>
            </>
          }
        >
          <Field
            label={common.name}
            value={name}
            onInput={setName}
            mono
            autofocus
            required
            placeholder="payments/stripe"
            error={wrong}
            hint={
              <>
                {common.inIt} <span class="mono">{visible(placeText(place))}</span>
                {en.aSlashMakesAFolder}
              </>
            }
          />
        </Sheet>
      </Form>
    );
  };
  void open<void>((close) => <New close={() => close()} />);
}

/** Asks about several places, and does it. `onDone` is told then, but where a move or copy of one place leads to its new place. */
export function bulk(
  what: 'move' | 'delete' | 'export',
  places: string[],
  onDone: () => void,
): void {
  if (what === 'export') {
    void import('./transfer.tsx').then(({ exportSecrets }) => exportSecrets(places));
    return;
  }
  void open<void>((close) =>
    what === 'move' ? (
      <Move places={places} close={() => close()} onDone={onDone} />
    ) : (
      <Delete places={places} close={() => close()} onDone={onDone} />
    ),
  );
}

interface Plan {
  total: number;
  names: string[];
}
async function plan(places: string[], ask: (place: string) => Promise<Plan>): Promise<Plan> {
  const parts = await Promise.all(places.map(ask));
  return {
    total: parts.reduce((sum, part) => sum + part.total, 0),
    names: parts.flatMap((part) => part.names),
  };
}
const Names = ({ names, total }: { names: string[]; total: number }) => (
  <ul class="plan mono">
    {names.slice(0, 8).map((name) => (
      <li key={name}>{visible(name)}</li>
    ))}
    {total > 8 && (
      <li class="dim">{en.and(plural(total - Math.min(8, names.length), en.other))}</li>
    )}
  </ul>
);

function Delete({
  places,
  close,
  onDone,
}: {
  places: string[];
  close: () => void;
  onDone: () => void;
}) {
  const [purge, setPurge] = useState(false);
  const [found, setFound] = useState<Plan | undefined>(undefined);
  const [refused, setRefused] = useState<unknown>(undefined);
  const [typed, setTyped] = useState('');
  useEffect(() => {
    let isLate = false;
    setFound(undefined);
    setRefused(undefined);
    plan(places, async (place) => {
      const { data } = await call<{ count: number; paths: string[] }>(
        'POST',
        'sys/kallisto/kv/delete',
        { body: { path: place, purge, dry_run: true } },
      );
      return { total: data.count, names: data.paths };
    }).then(
      (made) => {
        if (!isLate) setFound(made);
      },
      (error: unknown) => {
        if (!isLate) setRefused(error);
      },
    );
    return () => {
      isLate = true;
    };
  }, [purge]);
  // All of a selection are in one folder. Without versions there is nothing to bring back, whatever one chooses.
  const mount = useLoad(async () => (await findPlace(places[0] ?? '')).mount, [places[0]]);
  const isBare = mount.data?.version === 1;
  const isFinal = purge || isBare;
  // The route for many is refused to many people, and knows no cubbyhole: one secret has its own request.
  const isPlain =
    refused instanceof ApiError &&
    (refused.status === 403 || mount.data?.type.endsWith('cubbyhole') === true) &&
    places.length === 1 &&
    !places[0]?.endsWith('/');
  const total = isPlain ? 1 : (found?.total ?? 0);
  const word =
    isFinal || total > TYPED_FROM
      ? places.length === 1
        ? lastSegment(places[0] ?? '')
        : en.deleteIt(total)
      : '';
  const run = useAction(async () => {
    for (const text of places) {
      if (isPlain) {
        const place = await findPlace(text);
        await call('DELETE', apiPath(place, purge ? 'metadata' : 'data'));
      } else if (places.length === 1)
        await call('POST', 'sys/kallisto/kv/delete', { body: { path: text, purge, count: total } });
      else await call('POST', 'sys/kallisto/kv/delete', { body: { path: text, purge } });
    }
    close();
    onDone();
    const names = found?.names ?? places;
    if (isFinal) toast(en.deletedForGood(plural(total, common.secret)));
    else
      toast(en.deleted(plural(total, common.secret)), undefined, {
        label: en.undo,
        run: () => void undo(names, onDone),
      });
  });
  return (
    <Form
      name="secrets/delete"
      onSubmit={() => ((found || isPlain) && mount.data && typed === word ? run.run() : undefined)}
    >
      <Sheet
        title={isFinal ? en.deleteForGood : en.deleteIt2}
        actions={
          <>
            <Button onClick={close} autofocus>
              {common.cancel}
            </Button>
            <Button
              kind="danger"
              type="submit"
              icon="trash"
              busy={run.busy}
              disabled={(!found && !isPlain) || !mount.data || typed !== word || total === 0}
            >
              {isFinal
                ? en.deleteForGood2(plural(total, common.secret))
                : en.deleteIt3(plural(total, common.secret))}
            </Button>
          </>
        }
      >
        {isBare ? (
          <Note kind="warn">{en.noVersionsAreKeptHere}</Note>
        ) : (
          <Check
            label={en.deleteForGood3}
            hint={en.allVersionsAndMetadataCannotBe}
            checked={purge}
            onChange={setPurge}
          />
        )}
        {refused && !isPlain ? (
          <FormError error={refused} />
        ) : mount.error ? (
          <FormError error={mount.error} />
        ) : (!found && !isPlain) || !mount.data ? (
          <Loading rows={2} />
        ) : total === 0 ? (
          <Note>{en.thereIsNothingToDeleteHere}</Note>
        ) : (
          <>
            <p class="soft">
              {isBare ? (
                en.areRemoved(plural(total, common.secret))
              ) : purge ? (
                <>{en.allVersionsOfAreRemoved(plural(total, common.secret))}</>
              ) : (
                <>{en.theLatestVersionOfIsDeleted(plural(total, common.secret))}</>
              )}
            </p>
            <Names names={found?.names ?? places} total={total} />
          </>
        )}
        {word && total > 0 && (
          <Field label={en.typeToGoOn(word)} value={typed} onInput={setTyped} mono />
        )}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

/** Brings the latest versions back. */
async function undo(names: string[], onDone: () => void): Promise<void> {
  let back = 0;
  for (const name of names) {
    try {
      const place = await findPlace(name);
      const { data } = await call<{ current_version: number }>('GET', apiPath(place, 'metadata'));
      await call('POST', apiPath(place, 'undelete'), {
        body: { versions: [data.current_version] },
      });
      back += 1;
    } catch {
      /* Told below by the count. */
    }
  }
  toast(
    back === names.length
      ? en.areBack(plural(back, common.secret))
      : en.ofAreBackTheOthersNeed(back, names.length),
  );
  onDone();
}

function Move({
  places,
  close,
  onDone,
}: {
  places: string[];
  close: () => void;
  onDone: () => void;
}) {
  const [how, setHow] = useState<'move' | 'copy'>('move');
  const isOne = places.length === 1;
  const first = places[0] ?? '';
  const [to, setTo] = useState(isOne ? first : parentOf(first));
  const [found, setFound] = useState<Plan | undefined>(undefined);
  const [typed, setTyped] = useState('');
  const target = (from: string): string =>
    isOne ? to : `${to.replace(/\/?$/, '/')}${lastSegment(from)}${from.endsWith('/') ? '/' : ''}`;
  const check = useAction(async () => {
    setFound(
      await plan(places, async (from) => {
        const { data } = await call<{ count: number; secrets: { from: string; to: string }[] }>(
          'POST',
          `sys/kallisto/kv/${how}`,
          { body: { from, to: target(from), dry_run: true } },
        );
        return { total: data.count, names: data.secrets.map((one) => `${one.from} → ${one.to}`) };
      }),
    );
  });
  const run = useAction(async () => {
    const goOn = fromHere();
    for (const from of places)
      await call('POST', `sys/kallisto/kv/${how}`, {
        body: { from, to: target(from), ...(isOne ? { count: found?.total } : {}) },
      });
    close();
    toast(`${plural(found?.total ?? 0, common.secret)} ${how === 'move' ? en.moved : en.copied}`);
    if (isOne) void goOn(href(`s/${to}`));
    else onDone();
  });
  const word = found && found.total > TYPED_FROM ? `${how} ${found.total}` : '';
  return (
    <Form
      name="secrets/move"
      onSubmit={() => (found ? (typed === word ? run.run() : undefined) : check.run())}
    >
      <Sheet
        title={
          isOne ? visible(lastSegment(first)) : plural(places.length, en.selected, en.selected)
        }
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            {found ? (
              <Button
                kind="primary"
                type="submit"
                busy={run.busy}
                disabled={typed !== word || found.total === 0}
              >
                {how === 'move' ? common.move : common.copy} {plural(found.total, common.secret)}
              </Button>
            ) : (
              <Button
                kind="primary"
                type="submit"
                busy={check.busy}
                disabled={!to || (isOne && to === first)}
              >
                {en.seeWhatHappens}
              </Button>
            )}
          </>
        }
      >
        <Segments
          label={common.whatToDo}
          value={how}
          options={[
            ['move', en.moveOrRename],
            ['copy', common.copy],
          ]}
          onChange={(next) => {
            setHow(next);
            setFound(undefined);
          }}
        />
        <Field
          label={isOne ? en.to : en.intoTheFolder}
          value={to}
          onInput={(text) => {
            setTo(text);
            setFound(undefined);
          }}
          mono
          autofocus
          required
          hint={isOne && first.endsWith('/') ? en.aFolderEndsWithASlash : en.mountAndPath}
        />
        {found && (
          <>
            <p class="soft">{en.allVersionsTimesAndMetadataGo}</p>
            <Names names={found.names} total={found.total} />
          </>
        )}
        {word && (
          <Field label={en.typeToGoOn(word)} value={typed} onInput={setTyped} mono autofocus />
        )}
        <FormError error={check.error ?? run.error} />
      </Sheet>
    </Form>
  );
}
