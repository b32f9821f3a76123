// The small parts that every screen is made of: buttons, fields, cards, notes, tabs, empty and failed states.
import * as common from '../en/common.ts';
import * as en from '../en/parts/ui.ts';
import type { ComponentChildren, RefObject, TargetedEvent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../lib/api.ts';
import { copy } from '../lib/clipboard.ts';
import { allows, useNeeds, type Need } from '../lib/needs.ts';
import { href } from '../lib/router.ts';
import { Icon, type IconName } from './icons.tsx';
import { showWhy } from './why.tsx';

type Children = { children?: ComponentChildren };

export interface ButtonProps extends Children {
  onClick?: (event: MouseEvent) => void;
  icon?: IconName;
  kind?: 'primary' | 'ghost' | 'danger';
  size?: 'sm';
  label?: string;
  /** A right the action needs: without it the button is dashed and says why. */
  need?: Need;
  busy?: boolean;
  disabled?: boolean;
  type?: 'button' | 'submit';
  pressed?: boolean;
  expanded?: boolean;
  title?: string;
  class?: string;
  autofocus?: boolean;
}

/** A button. Without the right it needs it stays in its place, dashed, and a click says what is missing. */
export function Button({
  onClick,
  icon,
  kind,
  size,
  label,
  need,
  busy,
  disabled,
  type = 'button',
  pressed,
  expanded,
  title,
  class: extra = '',
  autofocus,
  children,
}: ButtonProps) {
  useNeeds(need ? [need] : []);
  const may = need ? allows(need) : true;
  const cap = need ? (Array.isArray(need.cap) ? need.cap[0] : need.cap) : '';
  const isRefused = may === false;
  const click = (event: MouseEvent): void => {
    // A form is not sent by a button that does nothing.
    if (busy || may !== true) event.preventDefault();
    if (busy || may === undefined) return;
    if (isRefused && need) return showWhy({ path: need.path, cap: cap ?? 'read' });
    onClick?.(event);
  };
  const only = children === undefined;
  return (
    <button
      type={type}
      class={`btn ${kind ?? ''} ${size ?? ''} ${only ? 'icon' : ''} ${isRefused ? 'refused' : ''} ${extra}`}
      onClick={click}
      disabled={disabled}
      aria-disabled={isRefused || may === undefined || busy ? 'true' : undefined}
      aria-label={label}
      aria-pressed={pressed}
      aria-expanded={expanded}
      aria-busy={busy || undefined}
      title={isRefused ? en.needsOn(cap, need?.path) : (title ?? (only ? label : undefined))}
      autofocus={autofocus}
    >
      {busy ? (
        <span class="spin" aria-hidden="true" />
      ) : isRefused ? (
        <Icon name="lock" />
      ) : icon ? (
        <Icon name={icon} small={!only || size === 'sm'} />
      ) : null}
      {children}
    </button>
  );
}

export function LinkButton({
  href,
  icon,
  kind,
  children,
  class: extra = '',
  label,
}: Children & {
  href: string;
  icon?: IconName;
  kind?: 'primary' | 'ghost';
  class?: string;
  label?: string;
}) {
  return (
    <a
      class={`btn ${kind ?? ''} ${children === undefined ? 'icon' : ''} ${extra}`}
      href={href}
      aria-label={label}
    >
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}

export function Card({
  title,
  actions,
  children,
  class: extra = '',
  pad,
}: Children & {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  pad?: boolean;
}) {
  return (
    <section class={`card ${extra}`}>
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      {pad ? <div class="pad stack">{children}</div> : children}
    </section>
  );
}

export function Note({
  kind = '',
  icon,
  children,
  action,
}: Children & {
  kind?: '' | 'warn' | 'bad' | 'accent' | 'ok';
  icon?: IconName;
  action?: ComponentChildren;
}) {
  return (
    <div class={`note ${kind}`} role={kind === 'bad' ? 'alert' : undefined}>
      <Icon
        name={
          icon ?? (kind === 'warn' || kind === 'bad' ? 'warn' : kind === 'ok' ? 'check' : 'info')
        }
        small={false}
      />
      <div class="grow">{children}</div>
      {action}
    </div>
  );
}

let ids = 0;
/** An id for tying a label to its field. */
export const useId = (): string => useState(() => `f${++ids}`)[0];

export interface FieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  type?: 'text' | 'password' | 'number' | 'url' | 'date' | 'datetime-local';
  hint?: ComponentChildren;
  error?: string | undefined;
  mono?: boolean;
  placeholder?: string;
  autocomplete?: string;
  autofocus?: boolean;
  required?: boolean;
  /** A masked field that no password manager takes for one of its own. */
  masked?: boolean;
  rows?: number;
  min?: number;
  list?: string[];
  disabled?: boolean;
}

/** A labelled field. */
export function Field({
  label,
  value,
  onInput,
  type = 'text',
  hint,
  error,
  mono,
  placeholder,
  autocomplete = 'off',
  autofocus,
  required,
  masked,
  rows,
  min,
  list,
  disabled,
}: FieldProps) {
  const id = useId();
  const shared = {
    id,
    value,
    placeholder,
    required,
    autofocus,
    autocomplete: autocomplete as 'off',
    spellcheck: false,
    disabled,
    'aria-describedby': hint || error ? `${id}h` : undefined,
    'aria-invalid': error ? ('true' as const) : undefined,
    onInput: (event: TargetedEvent<HTMLInputElement | HTMLTextAreaElement>) =>
      onInput(event.currentTarget.value),
    class: `${mono ? 'mono' : ''} ${masked ? 'masked' : ''}`,
  };
  return (
    <div class="labelled">
      <label for={id}>
        {label}
        {!required && hint === 'optional' ? <span class="dim"> {common.optional}</span> : null}
      </label>
      <div class={`field ${rows ? 'area' : ''} ${error ? 'wrong' : ''}`}>
        {rows ? (
          <textarea {...shared} rows={rows} />
        ) : (
          <input
            {...shared}
            {...({ type, min, list: list ? `${id}l` : undefined } as { type: 'text' })}
          />
        )}
        {list && (
          <datalist id={`${id}l`}>
            {list.map((one) => (
              <option value={one} />
            ))}
          </datalist>
        )}
      </div>
      {(error || (hint && hint !== 'optional')) && (
        <p id={`${id}h`} class={error ? 'err' : 'dim hint'}>
          {error ?? hint}
        </p>
      )}
    </div>
  );
}

export function Select<T extends string>({
  label,
  value,
  options,
  onChange,
  hideLabel,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  hideLabel?: boolean;
}) {
  const id = useId();
  return (
    <div class={hideLabel ? '' : 'labelled'}>
      <label for={id} class={hideLabel ? 'sr' : ''}>
        {label}
      </label>
      <div class="field select">
        <select
          id={id}
          value={value}
          onChange={(event) => onChange(event.currentTarget.value as T)}
        >
          {options.map(([key, text]) => (
            <option value={key}>{text}</option>
          ))}
        </select>
        <Icon name="down" />
      </div>
    </div>
  );
}

export function Check({
  label,
  checked,
  onChange,
  hint,
}: {
  label: ComponentChildren;
  checked: boolean;
  onChange: (on: boolean) => void;
  hint?: string;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>
        {label}
        {hint && <small class="dim">{hint}</small>}
      </span>
    </label>
  );
}

/** One of a few, as joined buttons. */
export function Segments<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map(([key, text]) => (
        <button type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** For a strip of links that may be wider than the screen: the current one is moved into view. */
export function useCurrentInView(current: string): RefObject<HTMLElement | null> {
  const strip = useRef<HTMLElement>(null);
  useEffect(() => {
    const link = strip.current?.querySelector('[aria-current]');
    link?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [current]);
  return strip;
}

/** Tabs that are addresses. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  label: string;
  tabs: { key: string; label: string; href: string; count?: number | string | undefined }[];
  current: string;
}) {
  const strip = useCurrentInView(current);
  return (
    <nav class="tabs on-surface" aria-label={label} ref={strip}>
      {tabs.map((tab) => (
        <a href={tab.href} aria-current={tab.key === current ? 'page' : undefined}>
          {tab.label}
          {tab.count !== undefined && <span class="tag">{tab.count}</span>}
        </a>
      ))}
    </nav>
  );
}

/** A command or another text to take elsewhere. */
export function Code({ text, label = en.command }: { text: string; label?: string }) {
  return (
    <div class="code mono">
      <code class="grow">{text}</code>
      <Button
        kind="ghost"
        size="sm"
        icon="copy"
        label={en.copy(label.toLowerCase())}
        onClick={() => void copy(text, label)}
      />
    </div>
  );
}

/** One sentence, one action, one command. */
export function Empty({
  icon = 'info',
  title,
  children,
  action,
  command,
}: Children & { icon?: IconName; title: string; action?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <span class="disc">
        <Icon name={icon} small={false} />
      </span>
      <h2>{title}</h2>
      {children && <p class="soft">{children}</p>}
      {action && <div class="row">{action}</div>}
      {command && <Code text={command} />}
    </div>
  );
}

/** A refusal that is the whole screen: the server's words, what was asked, the way on. */
export function Failed({
  error,
  retry,
  path,
  cap = 'read',
  isMissing = false,
  children,
}: Children & {
  error: unknown;
  isMissing?: boolean;
  retry?: (() => void) | undefined;
  path?: string;
  cap?: string;
}) {
  const api = error instanceof ApiError ? error : undefined;
  const status = api?.status ?? (isMissing ? 404 : 0);
  const asked = path ?? api?.path ?? '';
  const title =
    status === 403
      ? en.youHaveNoRightToThis
      : status === 404
        ? en.thereIsNothingHere
        : !api
          ? en.thisDidNotWork
          : status === 0
            ? en.theServerCannotBeReached
            : en.theServerRefused;
  return (
    <div class="empty refusal" role="alert">
      <span class="disc bad">
        <Icon name={status === 403 ? 'lock' : status === 404 ? 'search' : 'warn'} small={false} />
      </span>
      <h2>{title}</h2>
      {api ? (
        <p class="soft">
          {en.asked}{' '}
          <span class="mono">
            {api.method} {api.path}
          </span>
          {status > 0 && <> {en.answer(status)}</>}
        </p>
      ) : null}
      {(api?.message ?? String(error)) && (
        <p class="mono soft words">{api?.message ?? String(error)}</p>
      )}
      {api?.requestId && (
        <p class="dim">
          {common.request} <span class="mono">{api.requestId}</span>
        </p>
      )}
      <div class="row">
        {status === 403 && (
          <Button kind="primary" icon="info" onClick={() => showWhy({ path: asked, cap })}>
            {en.why}
          </Button>
        )}
        {retry && (
          <Button icon="undo" onClick={retry}>
            {en.tryAgain}
          </Button>
        )}
        <LinkButton href={href('')} icon="home">
          {en.home}
        </LinkButton>
      </div>
      {children}
    </div>
  );
}

/** What a form was told, beside its button. */
export function FormError({ error }: { error: unknown }) {
  if (!error) return null;
  const api = error instanceof ApiError ? error : undefined;
  return (
    <Note kind="bad">
      <b>{api ? (api.status === 403 ? en.noRight : '') : ''}</b>
      {error instanceof Error ? error.message : String(error)}
      {api?.requestId && (
        <span class="dim">
          {' '}
          {en.request} <span class="mono">{api.requestId}</span>
        </span>
      )}
    </Note>
  );
}

const SHOWN_AFTER_MS = 120;
/** A skeleton of the final size, after 120 ms. */
export function Loading({ rows = 6 }: { rows?: number }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), SHOWN_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="skeleton" role="status" aria-busy="true" aria-label={en.loading}>
      {shown && Array.from({ length: rows }, () => <div class="bone" />)}
    </div>
  );
}

export function Page({
  title,
  sub,
  actions,
  children,
}: Children & { title: ComponentChildren; sub?: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <div class="page">
      <header class="pagehead">
        <div class="grow">
          <h1>{title}</h1>
          {sub && <p>{sub}</p>}
        </div>
        <div class="row">{actions}</div>
      </header>
      {children}
    </div>
  );
}

export function Tag({
  kind = '',
  icon,
  children,
}: Children & { kind?: '' | 'ok' | 'warn' | 'bad' | 'accent'; icon?: IconName }) {
  return (
    <span class={`tag ${kind}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  );
}
