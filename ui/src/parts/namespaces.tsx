// Switching namespaces: those below the one in view that the token reaches, with a filter. The route keeps the namespace, rights are asked anew.
import * as common from '../en/common.ts';
import * as en from '../en/parts/namespaces.ts';
import { useEffect, useState } from 'preact/hooks';
import { tryCall } from '../lib/api.ts';
import { go, href, route } from '../lib/router.ts';
import { namespace } from '../lib/state.ts';
import { visible } from '../lib/time.ts';
import { open, Sheet } from './dialog.tsx';
import { Icon } from './icons.tsx';
import { Form } from './form.tsx';
import { Button, Field, Loading, Note } from './ui.tsx';

const DEPTH_MAX = 7;
const NAMES_MAX = 500;

/** Every namespace that can be listed, from the root down. */
export async function allNamespaces(): Promise<string[]> {
  const found: string[] = [];
  const visit = async (at: string, depth: number): Promise<void> => {
    if (depth > DEPTH_MAX || found.length > NAMES_MAX) return;
    const reply =
      (await tryCall<{ keys?: string[] }>('LIST', 'sys/namespaces', { ns: at })) ??
      (await tryCall<{ keys?: string[] }>('GET', 'sys/internal/ui/namespaces', { ns: at }));
    for (const key of reply?.data.keys ?? []) {
      const path = (at ? `${at}/` : '') + key.replace(/\/$/, '');
      found.push(path);
      await visit(path, depth + 1);
    }
  };
  await visit('', 0);
  return found.sort();
}

function Switch({ close }: { close: () => void }) {
  const [all, setAll] = useState<string[] | undefined>(undefined);
  const [text, setText] = useState('');
  useEffect(() => {
    void allNamespaces().then(setAll);
  }, []);
  const choose = (ns: string): void => {
    close();
    // An object of one namespace means nothing in another: its screen's root does.
    const [first = ''] = route.peek().path.split('/');
    const path = ['s', 'transit', 'policies', 'tokens', 'people'].includes(first)
      ? `${first === 'people' ? 'people/entities' : first}/`
      : route.peek().path;
    void go(href(path, {}, ns));
  };
  const shown = ['', ...(all ?? [])].filter((one) =>
    (one || 'root').toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <Form
      name="namespaces/switch"
      onSubmit={() => {
        choose(shown.length === 1 ? (shown[0] ?? '') : text.replace(/^\/+|\/+$/g, ''));
      }}
    >
      <Sheet
        title={common.namespace}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button type="submit" kind="primary">
              {en.go}
            </Button>
          </>
        }
      >
        <Field
          label={en.nameOrPath}
          value={text}
          onInput={setText}
          mono
          autofocus
          placeholder="team/payments"
        />
        {all === undefined ? (
          <Loading rows={3} />
        ) : (
          <ul class="picks">
            {shown.map((one) => (
              <li>
                <button
                  type="button"
                  class={one === namespace.value ? 'on' : ''}
                  aria-current={one === namespace.value ? 'true' : undefined}
                  onClick={() => choose(one)}
                >
                  <Icon name="layers" />
                  <span class="mono">{one ? visible(one) : common.root}</span>
                  {one === namespace.value && <Icon name="check" />}
                </button>
              </li>
            ))}
          </ul>
        )}
        {all?.length === 0 && <Note>{en.noNamespaceCanBeListedWith}</Note>}
      </Sheet>
    </Form>
  );
}

export const openNamespaces = (): Promise<void> =>
  open<void>((close) => <Switch close={() => close()} />).then(() => undefined);
