// The person's own menu: session, theme, density, keys, screen sharing, and the way out.
import * as common from '../en/common.ts';
import * as en from '../en/parts/me-menu.ts';
import { copy } from '../lib/clipboard.ts';
import { density, keysOn, sharing, theme } from '../lib/prefs.ts';
import { renew, secondsLeft, signOut } from '../lib/session.ts';
import { exact, span } from '../lib/time.ts';
import { me, namespace } from '../lib/state.ts';
import { toast } from '../lib/toasts.ts';
import { open, Sheet } from './dialog.tsx';
import { Form } from './form.tsx';
import { Button, Check, Segments, Tag } from './ui.tsx';

/** Whether the token goes too; `undefined` by any way out of the dialog is to stay signed in. */
function HowToLeave({ close }: { close: (how?: 'keep' | 'revoke') => void }) {
  return (
    <Form name="sign-out" onSubmit={() => close('revoke')}>
      <Sheet
        title={en.revokeTheTokenToo}
        actions={
          <>
            <Button onClick={() => close()} autofocus>
              {common.cancel}
            </Button>
            <Button onClick={() => close('keep')}>{en.signOutAndKeepIt}</Button>
            <Button type="submit" kind="danger">
              {en.revokeItAndSignOut}
            </Button>
          </>
        }
      >
        <p class="soft">{en.thisTokenWasPastedNotMade}</p>
      </Sheet>
    </Form>
  );
}

/** Signs out, if whoever asked for it goes on; a pasted token is revoked only if one says so. */
export async function leave(): Promise<void> {
  const current = me.peek();
  let revoke = current?.isOurs ?? false;
  if (current && !current.isOurs && !current.isRoot) {
    const how = await open<'keep' | 'revoke'>((close) => <HowToLeave close={close} />);
    if (how === undefined) return;
    revoke = how === 'revoke';
  }
  await signOut(revoke);
  location.assign(
    `/ui/login${namespace.peek() ? `?ns=${encodeURIComponent(namespace.peek())}` : ''}`,
  );
}

function Me({ close }: { close: () => void }) {
  const current = me.value;
  if (!current) return null;
  const left = secondsLeft(Date.now());
  return (
    <Sheet
      title={current.name}
      actions={
        <>
          <Button
            icon="copy"
            onClick={() => {
              close();
              void import('./copy-as.tsx').then((file) => file.openCopyAs());
            }}
          >
            {en.copyRequestsAs}
          </Button>
          <Button
            icon="out"
            onClick={() => {
              close();
              void leave();
            }}
          >
            {common.signOut}
          </Button>
          <Button kind="primary" onClick={close}>
            {common.done}
          </Button>
        </>
      }
    >
      <dl class="kv">
        <dt>{en.session}</dt>
        <dd>
          {left === undefined ? (
            en.doesNotEnd
          ) : (
            <>
              {en.left(span(left))} <span class="dim">{en.until(exact(current.ends))}</span>
            </>
          )}
          {current.renewable && left !== undefined && (
            <Button
              size="sm"
              onClick={() =>
                void renew().then(
                  () => toast(en.theSessionIsLongerNow),
                  (error: Error) => toast(error.message),
                )
              }
            >
              {en.renew}
            </Button>
          )}
        </dd>
        <dt>{common.policies}</dt>
        <dd class="caps">
          {current.policies.map((name) => (
            <Tag>{name}</Tag>
          ))}
        </dd>
        {current.path && (
          <>
            <dt>{en.signedInBy}</dt>
            <dd class="mono">{current.path}</dd>
          </>
        )}
        {current.entityId && (
          <>
            <dt>{en.entity}</dt>
            <dd class="mono">
              {current.entityId}
              <Button
                kind="ghost"
                size="sm"
                icon="copy"
                label={en.copyTheEntitysId}
                onClick={() => void copy(current.entityId, en.entity)}
              />
            </dd>
          </>
        )}
        <dt>{en.accessor}</dt>
        <dd class="mono">{current.accessor || '–'}</dd>
        <dt>{en.theme}</dt>
        <dd>
          <Segments
            label={en.theme}
            value={theme.value ?? 'system'}
            options={[
              ['system', en.system],
              ['light', en.light],
              ['dark', en.dark],
            ]}
            onChange={(value) => {
              theme.value = value;
            }}
          />
        </dd>
        <dt>{common.rows}</dt>
        <dd>
          <Segments
            label={en.density}
            value={density.value ?? 'normal'}
            options={[
              ['normal', en.normal],
              ['compact', en.compact],
            ]}
            onChange={(value) => {
              density.value = value;
            }}
          />
        </dd>
      </dl>
      <Check
        label={en.keysOfOneLetter}
        hint={en.jKRCEAnd}
        checked={keysOn.value ?? true}
        onChange={(on) => {
          keysOn.value = on;
        }}
      />
      <Check
        label={en.screenSharing}
        hint={en.hidesNamesTooUntilItIs}
        checked={sharing.value}
        onChange={(on) => {
          sharing.value = on;
        }}
      />
    </Sheet>
  );
}

export const openMe = (): void => void open<void>((close) => <Me close={() => close()} />);
