// Keys first: names without values, and a value when it is revealed or copied. Each of these is one read in the audit log.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/values.ts';
import { useEffect, useState } from 'preact/hooks';
import { copySecret } from '../../lib/clipboard.ts';
import { asText, type Json } from '../../lib/json.ts';
import { kindOf } from '../../lib/kinds.ts';
import { allows, useNeeds } from '../../lib/needs.ts';
import { apiPath, type Metadata, type Place, type VersionInfo } from '../../lib/place.ts';
import { ALL, useRevealed, type Revealed } from '../../lib/reveal.ts';
import { ago, exact, named, plural, visible, visibleText } from '../../lib/time.ts';
import { Icon } from '../../parts/icons.tsx';
import { useKeys } from '../../parts/keys.tsx';
import { showWhy } from '../../parts/why.tsx';
import { Button, Card, FormError, Note, Tag } from '../../parts/ui.tsx';
import { UseCard } from './use.tsx';
import { dueTag } from './due.tsx';

const FOLD_CHARS = 400;
export const Mask = () => (
  <span class="mask">
    <span aria-hidden="true">••••••••••••</span>
    <span class="sr">{en.hidden}</span>
  </span>
);

function useSeconds(until: number, isOn: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until, isOn]);
  return Math.max(0, Math.ceil((until - now) / 1000));
}

function Value({ value }: { value: Json }) {
  const [isOpen, setOpen] = useState(false);
  const text = asText(value);
  const isLong = text.length > FOLD_CHARS;
  const kind = kindOf(value);
  return (
    <>
      <span class="mono shown">
        {visibleText(isLong && !isOpen ? text.slice(0, FOLD_CHARS) + '…' : text) || (
          <i>{en.empty}</i>
        )}
      </span>
      {isLong && (
        <Button kind="ghost" size="sm" onClick={() => setOpen(!isOpen)}>
          {isOpen ? en.fold : en.showAllCharacters(text.length.toLocaleString('en'))}
        </Button>
      )}
      {kind && <Tag>{kind.label}</Tag>}
      {kind?.lines && (
        <dl class="claims">
          {kind.lines.map(([key, claim]) => (
            <>
              <dt class="mono">{visible(key)}</dt>
              <dd class="mono">{visible(claim)}</dd>
            </>
          ))}
        </dl>
      )}
    </>
  );
}

function inside(sub: unknown): string | undefined {
  return sub && typeof sub === 'object' && !Array.isArray(sub)
    ? en.keysInside(Object.keys(sub).length)
    : undefined;
}

export function Values({
  place,
  subkeys,
  version,
  meta,
  info,
}: {
  place: Place;
  subkeys: Record<string, any> | undefined;
  version: number | undefined;
  meta: Metadata | undefined;
  info: VersionInfo | undefined;
}) {
  const revealed: Revealed = useRevealed(place, version);
  const path = apiPath(place, 'data');
  const need = { path, cap: 'read' as const };
  useNeeds([need, { path, cap: 'delete' }]);
  const mayRead = allows(need);
  const keys = subkeys ? Object.keys(subkeys) : revealed.keys;
  const seconds = useSeconds(revealed.until, revealed.shown.size > 0);
  const copyKey = (key: string): void =>
    void revealed.take(key).then((value) => {
      if (value !== undefined) void copySecret(asText(value), key);
    });
  useKeys({
    reveal: () => {
      if (revealed.shown.size > 0) revealed.hide();
      else void revealed.reveal('all');
    },
    copy: () => {
      const focused =
        (document.activeElement?.closest('tr') as HTMLElement | null)?.dataset['key'] ?? keys?.[0];
      if (focused) copyKey(focused);
    },
  });
  const dashed = allows({ path, cap: 'delete' }) === false ? 'delete' : undefined;
  return (
    <>
      <Card class="values-card">
        <table class="values">
          <thead>
            <tr>
              <th>{common.key}</th>
              <th>{common.value}</th>
              <th>
                {keys && keys.length > 1 && mayRead !== false ? (
                  <Button
                    kind="ghost"
                    size="sm"
                    icon={revealed.shown.size > 0 ? 'eyeoff' : 'eye'}
                    busy={revealed.isBusy(ALL)}
                    onClick={() =>
                      revealed.shown.size > 0 ? revealed.hide() : void revealed.reveal('all')
                    }
                  >
                    {revealed.shown.size > 0 ? en.hideAll : en.revealAll}
                  </Button>
                ) : (
                  <span class="sr">{common.actions}</span>
                )}
              </th>
            </tr>
          </thead>
          <tbody>
            {(keys ?? []).map((key) => {
              const value = revealed.shown.get(key);
              const isShown = revealed.shown.has(key);
              return (
                <tr key={key} data-key={key}>
                  <td class="mono">{named(key) || <i>{en.empty}</i>}</td>
                  <td>
                    {isShown ? (
                      <Value value={value ?? null} />
                    ) : (
                      <>
                        <Mask />
                        {inside(subkeys?.[key]) && (
                          <>
                            {' '}
                            <Tag>{inside(subkeys?.[key])}</Tag>
                          </>
                        )}
                      </>
                    )}
                  </td>
                  <td>
                    <span class="cell-acts">
                      {isShown && (
                        <span class="ring">
                          <Icon name="clock" />
                          <span>{en.hidesInS(seconds)}</span>
                        </span>
                      )}
                      <Button
                        kind="ghost"
                        size="sm"
                        icon={isShown ? 'eyeoff' : 'eye'}
                        label={isShown ? en.hide(key) : en.reveal(key)}
                        need={need}
                        busy={revealed.isBusy(key)}
                        onClick={() => (isShown ? revealed.hide(key) : void revealed.reveal([key]))}
                      />
                      <Button
                        kind="ghost"
                        size="sm"
                        icon="copy"
                        label={en.copyWithoutShowingIt(key)}
                        need={need}
                        onClick={() => copyKey(key)}
                      />
                    </span>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {keys === undefined && (
          <div class="pad stack">
            <p class="soft">
              {place.mount.version === 1 ? en.thisMountIsOfVersion1 : en.keysAreShownWithTheValues}
            </p>
            <div>
              <Button
                icon="eye"
                kind="primary"
                need={need}
                busy={revealed.isBusy(ALL)}
                onClick={() => void revealed.reveal('all')}
              >
                {en.revealAll}
              </Button>
            </div>
          </div>
        )}
        {keys?.length === 0 && <p class="pad soft">{en.thisVersionHasNoKeys}</p>}
      </Card>
      <FormError error={revealed.error} />
      <Note>
        {en.valuesStayOnTheServerUntil}
        {dashed && (
          <>
            {' '}
            <b>{dashed}</b> {en.needs} <span class="mono">{dashed}</span> {common.on}{' '}
            <span class="mono">{visible(path)}</span>.{' '}
            <button type="button" class="link" onClick={() => showWhy({ path, cap: dashed })}>
              {en.why}
            </button>
          </>
        )}
      </Note>
      <div class="two">
        <UseCard place={place} keys={keys ?? []} />
        <Card title={en.about} pad>
          <dl class="kv">
            {info ? (
              <>
                <dt>{common.changed}</dt>
                <dd>
                  <time title={exact(info.created_time)}>{ago(info.created_time)}</time>
                  {info.created_by?.display_name && (
                    <>
                      {' '}
                      {en.by} <b>{visible(info.created_by.display_name)}</b>
                    </>
                  )}
                </dd>
              </>
            ) : null}
            {meta && (
              <>
                <dt>{common.versions}</dt>
                <dd>
                  {en.keptTheFirst(
                    plural(meta.versions.length, common.version2),
                    ago(meta.created_time),
                  )}
                </dd>
              </>
            )}
            {meta?.custom_metadata?.['owner'] && (
              <>
                <dt>{en.owner}</dt>
                <dd>{visible(meta.custom_metadata['owner'])}</dd>
              </>
            )}
            {meta?.custom_metadata?.['due'] && (
              <>
                <dt>{en.rotateBy}</dt>
                <dd>{dueTag(meta.custom_metadata['due'])}</dd>
              </>
            )}
            {meta?.custom_metadata?.['description'] && (
              <>
                <dt>{common.description}</dt>
                <dd>{visible(meta.custom_metadata['description'])}</dd>
              </>
            )}
            <dt>{common.mount}</dt>
            <dd>
              <span class="mono">{visible(place.mount.path)}</span>{' '}
              <span class="dim">{en.version(place.mount.version)}</span>
            </dd>
          </dl>
        </Card>
      </div>
    </>
  );
}
