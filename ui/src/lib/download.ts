// Files that the page itself makes, handed to whoever sits before it, and those that it is given.
/** Gives the browser a file made here. */
export function download(
  name: string,
  content: string | Blob,
  type = 'application/octet-stream',
): void {
  const url = URL.createObjectURL(
    typeof content === 'string' ? new Blob([content], { type }) : content,
  );
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The text of a file, or its bytes as base64 where they are none. */
export async function textOfFile(file: File): Promise<{ text: string; isText: boolean }> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), isText: true };
  } catch {
    return {
      text: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')),
      isText: false,
    };
  }
}
