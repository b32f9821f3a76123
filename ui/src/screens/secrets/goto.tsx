// For whoever may not list: a box for a path, which knows what was opened before.
import * as en from '../../en/screens/secrets/goto.ts';
import { useState } from 'preact/hooks';
import { hrefOf, typedFault } from '../../lib/place.ts';
import { recent } from '../../lib/prefs.ts';
import { go } from '../../lib/router.ts';
import { namespace } from '../../lib/state.ts';
import { Form } from '../../parts/form.tsx';
import { Button, Field } from '../../parts/ui.tsx';

export function GoTo({ start = '' }: { start?: string }) {
  const [text, setText] = useState(start);
  const wrong = typedFault(text);
  const known = (recent.value ?? [])
    .filter((one) => one.startsWith(`${namespace.value}\n`))
    .map((one) => one.slice(one.indexOf('\n') + 1));
  return (
    <Form
      name="secrets/go"
      class="goto"
      onSubmit={() => {
        if (text && wrong === undefined) void go(hrefOf(text));
      }}
    >
      <Field
        label={en.goToAPath}
        value={text}
        onInput={setText}
        mono
        placeholder="secret/apps/payments/stripe"
        list={known}
        error={wrong}
      />
      <Button type="submit" icon="chev">
        {en.open}
      </Button>
    </Form>
  );
}
