// Dialogs: the browser's own `<dialog>`, which keeps the focus inside and gives it back. `open` shows one from anywhere and resolves with its answer.
import * as common from '../en/common.ts';
import * as en from '../en/parts/dialog.ts';
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { onMove } from '../lib/router.ts';
import { Form } from './form.tsx';
import { Button, Field } from './ui.tsx';

interface Shown {
  id: number;
  render: (close: (answer?: unknown) => void) => ComponentChildren;
  resolve: (answer: unknown) => void;
}
const shown = signal<Shown[]>([]);
let next = 1;

/** Shows a dialog; resolves when it closes, with `undefined` for Escape. */
export function open<T>(
  render: (close: (answer?: T) => void) => ComponentChildren,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    const id = next++;
    const close = (answer?: unknown): void => {
      shown.value = shown.peek().filter((one) => one.id !== id);
      resolve(answer as T | undefined);
    };
    shown.value = [...shown.peek(), { id, render: render as Shown['render'], resolve: close }];
  });
}
export const isDialogOpen = (): boolean => shown.peek().length > 0;
const closeAll = (): void => {
  for (const one of shown.peek()) one.resolve(undefined);
};
// What was open over a screen goes with it: the browser's own way back leaves no dialog about something else.
onMove.run = closeAll;

function Modal({
  children,
  onClose,
  wide,
}: {
  children: ComponentChildren;
  onClose: () => void;
  wide?: boolean;
}) {
  const own = useRef<HTMLDialogElement>(null);
  // Before the next key, not after the next frame: what is typed right after a dialog was asked for is for it.
  useLayoutEffect(() => {
    const dialog = own.current;
    const before = document.activeElement;
    dialog?.showModal();
    (
      dialog?.querySelector<HTMLElement>('[autofocus]') ??
      dialog?.querySelector<HTMLElement>('input,select,textarea,button')
    )?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={own}
      class={wide ? 'wide' : ''}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === own.current) onClose();
      }}
    >
      <div class="sheet">{children}</div>
    </dialog>
  );
}

export function Dialogs() {
  return (
    <>
      {shown.value.map((one) => (
        <Modal key={one.id} onClose={() => one.resolve(undefined)}>
          {one.render(one.resolve)}
        </Modal>
      ))}
    </>
  );
}

/** The frame of a dialog: title, body, and buttons at the end. */
export function Sheet({
  title,
  children,
  actions,
}: {
  title: string;
  children?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <>
      <h2 id="dialog-title">{title}</h2>
      <div class="stack">{children}</div>
      {actions && <footer class="row end">{actions}</footer>}
    </>
  );
}

export interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  /** A name to type first. */
  typed?: string;
}

function Ask({ question, close }: { question: Question; close: (yes?: boolean) => void }) {
  const [text, setText] = useState('');
  const isReady = !question.typed || text === question.typed;
  return (
    <Form
      name="confirm"
      onSubmit={() => {
        if (isReady) close(true);
      }}
    >
      <Sheet
        title={question.title}
        actions={
          <>
            <Button onClick={() => close(false)} autofocus={!question.typed && question.danger}>
              {common.cancel}
            </Button>
            <Button type="submit" kind={question.danger ? 'danger' : 'primary'} disabled={!isReady}>
              {question.action}
            </Button>
          </>
        }
      >
        <div class="soft">{question.text}</div>
        {question.typed && (
          <Field
            label={en.typeToGoOn(question.typed)}
            value={text}
            onInput={setText}
            mono
            autofocus
          />
        )}
      </Sheet>
    </Form>
  );
}

/** Asks before something that matters. */
export const confirm = async (question: Question): Promise<boolean> =>
  (await open<boolean>((close) => <Ask question={question} close={close} />)) === true;
