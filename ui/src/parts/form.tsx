// Every form of the page. It has a name, by which the tests know that each was sent in a browser; what is sent is not sent again while it is under way;
// and what was typed into it is known to be open work, so that a server that seals itself is unsealed in its place.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** Forms in view that somebody typed into, and that were not sent since. */
const touched = new Set<object>();
export const isAnyTouched = (): boolean => touched.size > 0;

export function Form({
  name,
  onSubmit,
  class: extra,
  label,
  children,
}: {
  name: string;
  onSubmit: () => unknown;
  class?: string;
  label?: string;
  children: ComponentChildren;
}) {
  const isUnderWay = useRef(false);
  const own = useRef({}).current;
  useLayoutEffect(
    () => () => {
      touched.delete(own);
    },
    [],
  );
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    try {
      await onSubmit();
    } finally {
      isUnderWay.current = false;
    }
  };
  return (
    <form
      data-form={name}
      class={extra}
      aria-label={label}
      onInput={() => touched.add(own)}
      onSubmit={(event) => void submit(event)}
    >
      {children}
    </form>
  );
}
