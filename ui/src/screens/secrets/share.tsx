// Share once: the server wraps its own read, so the value never enters the sender's browser; or chosen keys, or free text. The link's token is in the fragment,
// which no server or proxy sees. A phrase, if wanted, encrypts before wrapping (AES-GCM with PBKDF2, by WebCrypto).
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/share.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { copy, copySecret } from '../../lib/clipboard.ts';
import { writeJson, type Data } from '../../lib/json.ts';
import { useAction } from '../../lib/load.ts';
import { apiPath, placeText, readSubkeys, type Place } from '../../lib/place.ts';
import { readData } from '../../lib/reveal.ts';
import { seal } from '../../lib/phrase.ts';
import { remember } from '../../lib/shares.ts';
import { textOfFile } from '../../lib/download.ts';
import { toast } from '../../lib/toasts.ts';
import { namespace } from '../../lib/state.ts';
import { span, visible } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Qr } from '../../parts/qr.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Check, Field, FormError, Note, Select } from '../../parts/ui.tsx';

const LIVES: readonly (readonly [string, string])[] = [
  ['600', '10 minutes'],
  ['3600', '1 hour'],
  ['86400', '1 day'],
  ['259200', '3 days'],
  ['604800', '7 days'],
];
const TEXT_MAX = 524_288;
interface Made {
  link: string;
  ttl: number;
  phrase: string;
}

export const linkOf = (token: string, ns: string): string =>
  `${location.origin}/ui/open${ns ? `?ns=${encodeURIComponent(ns).replaceAll('%2F', '/')}` : ''}#${token}`;

async function wrap(data: Data, ttl: string, phrase: string, note: string): Promise<Made> {
  const body = phrase
    ? JSON.stringify({ kallisto_sealed: await seal(writeJson(data), phrase) })
    : writeJson(data);
  const { wrap } = await call('POST', 'sys/wrapping/wrap', { text: body, wrapTtl: `${ttl}s` });
  if (!wrap) throw new Error(en.theServerDidNotWrapThe);
  await remember({
    accessor: wrap.accessor,
    note,
    made: Date.now(),
    ends: Date.now() + wrap.ttl * 1000,
    from: '',
  });
  return { link: linkOf(wrap.token, namespace.peek()), ttl: wrap.ttl, phrase };
}

export function Done({ made, close }: { made: Made; close: () => void }) {
  return (
    <Sheet
      title={en.aLinkThatOpensOnce}
      actions={
        <Button kind="primary" onClick={close}>
          {common.done}
        </Button>
      }
    >
      <div class="code mono link-box">
        <code class="grow">{made.link}</code>
        <Button
          kind="ghost"
          size="sm"
          icon="copy"
          label={en.copyTheLink}
          onClick={() => void copySecret(made.link, en.link)}
        />
      </div>
      <Qr text={made.link} />
      {made.phrase && (
        <Note kind="warn">
          {en.sendThePhraseAnotherWayThan} <span class="mono">{made.phrase}</span>{' '}
          <Button size="sm" icon="copy" onClick={() => void copy(made.phrase, en.phrase)}>
            {common.copy}
          </Button>
        </Note>
      )}
      <p class="soft">
        {en.itOpensOnceWithinWithoutAn(span(made.ttl))} <b>{common.sharedByMe}</b>.
      </p>
    </Sheet>
  );
}

function Share({
  place,
  version,
  close,
}: {
  place: Place | undefined;
  version?: number | undefined;
  close: () => void;
}) {
  const [ttl, setTtl] = useState('86400');
  const [note, setNote] = useState('');
  const [phrase, setPhrase] = useState('');
  const [hasPhrase, setHasPhrase] = useState(false);
  const [text, setText] = useState('');
  const [keys, setKeys] = useState<string[] | undefined>(undefined);
  const [chosen, setChosen] = useState<string[]>([]);
  const [made, setMade] = useState<Made | undefined>(undefined);
  const run = useAction(async () => {
    const words = note || (place ? placeText(place) : 'a text');
    if (!place) return setMade(await wrap({ text }, ttl, hasPhrase ? phrase : '', words));
    const all = chosen.length === 0 && !hasPhrase;
    if (!all) {
      const { data } = await readData(place, 'export', version);
      const part = chosen.length
        ? Object.fromEntries(Object.entries(data).filter(([key]) => chosen.includes(key)))
        : data;
      return setMade(await wrap(part, ttl, hasPhrase ? phrase : '', words));
    }
    const { wrap: info } = await call('GET', apiPath(place, 'data'), {
      wrapTtl: `${ttl}s`,
      intent: 'export',
      query: { version },
    });
    if (!info) throw new Error(en.theServerDidNotWrapIts);
    await remember({
      accessor: info.accessor,
      note: words,
      made: Date.now(),
      ends: Date.now() + info.ttl * 1000,
      from: placeText(place),
    });
    setMade({ link: linkOf(info.token, namespace.peek()), ttl: info.ttl, phrase: '' });
  });
  const take = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    if (file.size > TEXT_MAX) return toast(en.isOver512Kb(file.name));
    const { text: read, isText } = await textOfFile(file);
    setText(read);
    if (!isText) toast(en.isNoTextKeptAsBase64(file.name));
  };
  if (made) return <Done made={made} close={close} />;
  const draw = (): void => {
    const words = crypto.getRandomValues(new Uint8Array(15));
    setPhrase(
      Array.from(
        words,
        (byte, i) =>
          (i > 0 && i % 5 === 0 ? '-' : '') + 'abcdefghjkmnpqrstuvwxyz23456789'[byte % 31],
      ).join(''),
    );
  };
  return (
    <Form name="share" onSubmit={() => run.run()}>
      <Sheet
        title={
          place
            ? en.shareOnce(visible(placeText(place)) + (version ? ` v${version}` : ''))
            : common.shareATextOnce
        }
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button
              kind="primary"
              type="submit"
              icon="link"
              busy={run.busy}
              disabled={(!place && !text) || (hasPhrase && !phrase)}
            >
              {en.makeTheLink}
            </Button>
          </>
        }
      >
        {place ? (
          <>
            {keys ? (
              <fieldset class="clash">
                <legend>{common.keys}</legend>
                {keys.map((key) => (
                  <Check
                    key={key}
                    label={<span class="mono">{visible(key)}</span>}
                    checked={chosen.includes(key)}
                    onChange={(on) =>
                      setChosen(on ? [...chosen, key] : chosen.filter((one) => one !== key))
                    }
                  />
                ))}
                <p class="dim">{en.noneChosenAllOfThem}</p>
              </fieldset>
            ) : (
              <div>
                <Button
                  size="sm"
                  onClick={() =>
                    void readSubkeys(place, version).then((found) =>
                      setKeys(Object.keys(found ?? {})),
                    )
                  }
                >
                  {en.chooseKeys}
                </Button>{' '}
                <span class="dim">{en.nowTheWholeSecretTheServer}</span>
              </div>
            )}
          </>
        ) : (
          <>
            <Field
              label={common.text}
              value={text}
              onInput={setText}
              rows={5}
              mono
              autofocus
              error={text.length > TEXT_MAX ? 'Over 512 kB.' : undefined}
            />
            <label class="btn file-btn">
              {en.fromAFile}
              <input
                type="file"
                class="sr"
                onChange={(event) => void take(event.currentTarget.files?.[0])}
              />
            </label>
          </>
        )}
        <Select label={en.opensWithin} value={ttl} options={LIVES} onChange={setTtl} />
        <Field
          label={en.noteToYourself}
          value={note}
          onInput={setNote}
          hint={en.seenOnlyByYouInShared}
        />
        <Check
          label={en.askForAPhraseToo}
          hint={en.theLinkAloneOpensNothingEncrypted}
          checked={hasPhrase}
          onChange={(on) => {
            setHasPhrase(on);
            if (on && !phrase) draw();
          }}
        />
        {hasPhrase && <Field label={en.phrase} value={phrase} onInput={setPhrase} mono required />}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

/** Shares a secret, or the version of it that is in view. */
export const shareSecret = (place: Place, version: number | undefined): void =>
  void open<void>((close) => <Share place={place} version={version} close={() => close()} />);
export const shareText = (): Promise<void> =>
  open<void>((close) => <Share place={undefined} close={() => close()} />).then(() => undefined);
