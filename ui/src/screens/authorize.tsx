// The OIDC provider's authorize page: whoever is signed in here goes on to the application that asked (OpenID Connect Core, section 3.1.2).
import * as common from '../en/common.ts';
import * as en from '../en/screens/authorize.ts';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../lib/api.ts';
import { route } from '../lib/router.ts';
import { me, namespace } from '../lib/state.ts';
import { visible } from '../lib/time.ts';
import { Button, Card, FormError, Note, Page } from '../parts/ui.tsx';

const FIELDS = [
  'scope',
  'response_type',
  'client_id',
  'redirect_uri',
  'state',
  'nonce',
  'max_age',
  'code_challenge',
  'code_challenge_method',
  'prompt',
  'display',
  'request',
  'request_uri',
] as const;
// What the server says once it has checked that the address is the application's: only that goes back to it.
const FOR_IT = [
  'access_denied',
  'invalid_request',
  'invalid_scope',
  'login_required',
  'request_not_supported',
  'request_uri_not_supported',
  'server_error',
  'unauthorized_client',
  'unsupported_response_type',
];

export function Authorize() {
  const { path, query } = route.value;
  const name = /identity\/oidc\/provider\/([^/]+)\/authorize$/.exec(path)?.[1];
  const [error, setError] = useState<unknown>(undefined);
  const [busy, setBusy] = useState(false);
  const target = query.get('redirect_uri') ?? '';
  let host = '';
  // The address of an application on the device may be a scheme of its own, without a host (RFC 8252, section 7.1).
  try {
    const url = new URL(target);
    host = url.host || url.protocol;
  } catch {
    /* Told below. */
  }
  const back = (values: Record<string, string>): void => {
    const url = new URL(target);
    for (const [key, value] of Object.entries(values)) url.searchParams.set(key, value);
    location.assign(url.href);
  };
  const go = async (): Promise<void> => {
    if (!name) return;
    setBusy(true);
    setError(undefined);
    try {
      const asked = Object.fromEntries(
        FIELDS.flatMap((field) => {
          const value = query.get(field);
          return value === null ? [] : [[field, value]];
        }),
      );
      const { body, data } = await call<Record<string, any>>(
        'POST',
        `identity/oidc/provider/${name}/authorize`,
        { body: asked, quiet: true },
      );
      const code = (body['code'] ?? data['code']) as string | undefined;
      if (!code) throw new Error(en.theServerGaveNoCode);
      back({ code, state: String(body['state'] ?? data['state'] ?? query.get('state') ?? '') });
    } catch (caught) {
      const kind = caught instanceof ApiError ? String(caught.body['error'] ?? '') : '';
      if (caught instanceof ApiError && FOR_IT.includes(kind))
        back({
          error: kind,
          error_description: String(caught.body['error_description'] ?? ''),
          state: query.get('state') ?? '',
        });
      else setError(caught);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    document.title = en.signInToAnApplicationKallisto;
  }, []);
  if (!name || !host)
    return (
      <Page title={en.signInToAnApplication}>
        <Note kind="bad">{en.thisAddressLacksWhatTheApplication}</Note>
      </Page>
    );
  return (
    <Page title={en.signInToAnApplication}>
      <Card pad>
        <p>
          <b>{visible(host)}</b> {en.asksWhoYouAreItLearns}{' '}
          <span class="mono">{visible(query.get('scope') ?? 'openid')}</span> {en.tellAbout}{' '}
          <b>{visible(me.value?.name ?? '')}</b>
          {namespace.value && (
            <>
              {' '}
              {common.inIt} <span class="mono">{namespace.value}</span>
            </>
          )}
          .
        </p>
        <FormError error={error} />
        <div class="row">
          <Button kind="primary" busy={busy} onClick={() => void go()}>
            {en.goOnTo(visible(host))}
          </Button>
          <Button onClick={() => history.back()}>{common.cancel}</Button>
        </div>
      </Card>
    </Page>
  );
}
