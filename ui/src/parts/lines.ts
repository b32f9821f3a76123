// A field that is a line until its text needs an area. A line alone would drop the line ends of what is pasted, such as those of a certificate.
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

const hasLines = (text: string): boolean => /[\r\n]/.test(text);

export interface Lines {
  /** The element around the field. */
  box: RefObject<HTMLDivElement | null>;
  isArea: boolean;
  /** Takes what was typed into the line. */
  onInput: (input: HTMLInputElement) => void;
  /** Puts text where the caret is. */
  insert: (input: HTMLInputElement, text: string) => void;
  onPaste: (event: ClipboardEvent) => void;
}

/** The field of `text`; `isLong` says whether a text needs an area. An area stays one, and typing goes on where it takes the place of the line. */
export function useLines(
  text: string,
  set: (text: string) => void,
  isLong: (text: string) => boolean = () => false,
): Lines {
  const needsArea = (one: string): boolean => hasLines(one) || isLong(one);
  const box = useRef<HTMLDivElement>(null);
  const wasArea = useRef(false);
  wasArea.current ||= needsArea(text);
  const caret = useRef<number | undefined>(undefined);
  useLayoutEffect(() => {
    const area = box.current?.querySelector('textarea');
    if (caret.current === undefined || !area) return;
    area.focus();
    area.setSelectionRange(caret.current, caret.current);
    caret.current = undefined;
  }, [wasArea.current]);
  const put = (next: string, at: number): void => {
    if (needsArea(next)) caret.current = at;
    set(next);
  };
  const insert = (input: HTMLInputElement, part: string): void => {
    const from = input.selectionStart ?? input.value.length;
    const before = input.value.slice(0, from) + part;
    put(before + input.value.slice(input.selectionEnd ?? from), before.length);
  };
  return {
    box,
    isArea: wasArea.current,
    insert,
    onInput: (input) => put(input.value, input.selectionStart ?? input.value.length),
    onPaste: (event) => {
      const pasted = event.clipboardData?.getData('text/plain') ?? '';
      // The end of a line that was copied whole is no part of the value.
      if (!(event.target instanceof HTMLInputElement) || !hasLines(pasted.trimEnd())) return;
      event.preventDefault();
      insert(event.target, pasted.replace(/\r\n?/g, '\n'));
    },
  };
}
