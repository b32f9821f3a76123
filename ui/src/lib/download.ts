// A file that the page itself makes, handed to whoever sits before it.
/** Gives the browser a file made here. */
export function download(name: string, content: string | Blob, type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type }) : content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
