// A text editor with line numbers, colours and marked lines: a textarea over its own coloured text, so that it stays a plain field for screen readers,
// spell checkers, the clipboard and undo. JSON and HCL; errors come from the caller.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';

export interface Mark {
  line: number;
  message: string;
  kind?: 'error' | 'warning' | 'hit';
}
const HIGHLIGHT_MAX = 200_000;
const TOKENS = {
  json: /("(?:[^"\\]|\\.)*"(?=\s*:))|("(?:[^"\\]|\\.)*")|(-?\b\d[\d.eE+-]*\b)|(\btrue\b|\bfalse\b|\bnull\b)/g,
  hcl: /(#.*|\/\/.*|\/\*[\s\S]*?\*\/)|("(?:[^"\\]|\\.)*")|(\b(?:path|capabilities|allowed_parameters|denied_parameters|required_parameters|min_wrapping_ttl|max_wrapping_ttl|policy|rule|length|charset|min-chars|pagination_limit|expiration|comment)\b)|(\b\d+\b|\btrue\b|\bfalse\b)/g,
} as const;
const CLASSES = { json: ['hk', 'hs', 'hn', 'hn'], hcl: ['hc', 'hs', 'hk', 'hn'] } as const;

function coloured(line: string, language: 'json' | 'hcl'): ComponentChildren[] {
  const made: ComponentChildren[] = [];
  let at = 0;
  for (const found of line.matchAll(TOKENS[language])) {
    if (found.index > at) made.push(line.slice(at, found.index));
    const group = found.slice(1).findIndex((one) => one !== undefined);
    made.push(<span class={CLASSES[language][group]}>{found[0]}</span>);
    at = found.index + found[0].length;
  }
  made.push(line.slice(at));
  return made;
}

export function CodeArea({
  label,
  value,
  onInput,
  language,
  errors = [],
  rows = 14,
  readOnly,
  onKeyDown,
}: {
  label: string;
  value: string;
  onInput?: (text: string) => void;
  language: 'json' | 'hcl';
  errors?: Mark[];
  rows?: number;
  readOnly?: boolean;
  onKeyDown?: (event: KeyboardEvent) => void;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = useMemo(() => value.split('\n'), [value]);
  const isLarge = value.length > HIGHLIGHT_MAX;
  const marks = new Map(errors.map((mark) => [mark.line, mark]));
  const indent = (event: KeyboardEvent): void => {
    onKeyDown?.(event);
    const element = area.current;
    if (event.defaultPrevented || !element || readOnly) return;
    // Enter keeps the indent of its line. Tab leaves the field, as everywhere.
    if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
      const before = element.value.slice(0, element.selectionStart);
      const lead = /(?:^|\n)([ \t]*)[^\n]*$/.exec(before)?.[1] ?? '';
      const deeper = /[[{]\s*$/.test(before) ? '  ' : '';
      if (!lead && !deeper) return;
      event.preventDefault();
      element.setRangeText(
        `\n${lead}${deeper}`,
        element.selectionStart,
        element.selectionEnd,
        'end',
      );
      onInput?.(element.value);
    }
  };
  return (
    <div class="code-area mono">
      <ol class="code-lines" aria-hidden="true">
        {(isLarge ? [] : lines).map((line, i) => {
          const mark = marks.get(i + 1);
          return (
            <li
              class={
                mark ? { error: 'errl', warning: 'warnl', hit: 'hit' }[mark.kind ?? 'error'] : ''
              }
              title={mark?.message}
            >
              <span class="no">{i + 1}</span>
              <code>
                {coloured(line, language)}
                {'\u200b'}
              </code>
            </li>
          );
        })}
      </ol>
      <textarea
        ref={area}
        aria-label={label}
        value={value}
        readOnly={readOnly}
        rows={Math.max(rows, lines.length)}
        class={isLarge ? 'plain' : ''}
        onInput={(event) => onInput?.(event.currentTarget.value)}
        onKeyDown={indent}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
      />
    </div>
  );
}
