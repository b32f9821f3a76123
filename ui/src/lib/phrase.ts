// Encryption by a phrase in front of wrapping: PBKDF2-SHA256 to AES-256-GCM, all by WebCrypto. The form: base64 of salt (16), nonce (12), ciphertext.
import * as en from '../en/lib/phrase.ts';
const ROUNDS = 600_000;
const SALT = 16;
const NONCE = 12;

async function keyOf(phrase: string, salt: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  if (!crypto.subtle) throw new Error(en.aPhraseNeedsHttpsThisBrowser);
  const base = await crypto.subtle.importKey(
    'raw',
    new TextEncoder().encode(phrase.trim()),
    'PBKDF2',
    false,
    ['deriveKey'],
  );
  return crypto.subtle.deriveKey(
    { name: 'PBKDF2', hash: 'SHA-256', salt, iterations: ROUNDS },
    base,
    { name: 'AES-GCM', length: 256 },
    false,
    ['encrypt', 'decrypt'],
  );
}

export async function seal(text: string, phrase: string): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(SALT));
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE));
  const sealed = new Uint8Array(
    await crypto.subtle.encrypt(
      { name: 'AES-GCM', iv: nonce },
      await keyOf(phrase, salt),
      new TextEncoder().encode(text),
    ),
  );
  return btoa(
    Array.from([...salt, ...nonce, ...sealed], (byte) => String.fromCharCode(byte)).join(''),
  );
}

export async function unseal(sealed: string, phrase: string): Promise<string> {
  const bytes = Uint8Array.from(atob(sealed), (character) => character.charCodeAt(0));
  const key = await keyOf(phrase, bytes.slice(0, SALT));
  try {
    return new TextDecoder().decode(
      await crypto.subtle.decrypt(
        { name: 'AES-GCM', iv: bytes.slice(SALT, SALT + NONCE) },
        key,
        bytes.slice(SALT + NONCE),
      ),
    );
  } catch {
    throw new Error(en.thePhraseIsWrong);
  }
}
