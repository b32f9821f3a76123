// The way back from an OIDC provider.
import * as en from '../en/screens/callback.ts';
import { useEffect, useState } from 'preact/hooks';
import { oidcFinish } from '../lib/oidc.ts';
import { go, href, route } from '../lib/router.ts';
import { visible } from '../lib/time.ts';
import { Mark } from '../parts/icons.tsx';
import { LinkButton, Loading, Note } from '../parts/ui.tsx';

export function Callback() {
  const [error, setError] = useState('');
  useEffect(() => {
    const { path, query } = route.peek();
    // Neither code nor state stays in the address.
    history.replaceState(null, '', '/ui/login');
    oidcFinish(path.replace(/^callback\//, ''), query).then(
      (to) => {
        if (to === undefined) window.close();
        else void go(to, true);
      },
      (caught: Error) => setError(caught.message),
    );
  }, []);
  return (
    <div class="outside">
      <main class="gate">
        <div class="gatehead">
          <Mark />
          <h1>{error ? en.signingInFailed : en.signingIn}</h1>
        </div>
        {error ? (
          <>
            <Note kind="bad">{visible(error)}</Note>
            <LinkButton href={href('login')} kind="primary">
              {en.startAgain}
            </LinkButton>
          </>
        ) : (
          <Loading rows={2} />
        )}
      </main>
    </div>
  );
}
