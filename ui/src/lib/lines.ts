// Lines of JSON that a server streams as they come: for what is followed. An empty line says only that the connection lives.
import { ApiError, headersOf, urlOf, type Options } from './api.ts';

/** Opens a stream; a refusal is an `ApiError` as of any other request. */
export async function openStream(
  path: string,
  query: Options['query'],
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const response = await fetch(urlOf(path, query), {
    headers: headersOf({}),
    signal,
    cache: 'no-store',
    credentials: 'omit',
  });
  if (response.ok && response.body) return response.body as ReadableStream<Uint8Array<ArrayBuffer>>;
  let body: { errors?: string[]; request_id?: string } = {};
  try {
    body = JSON.parse(await response.text()) as typeof body;
  } catch {
    /* A proxy's page. The status says enough. */
  }
  throw new ApiError(
    response.status,
    body.errors ?? [],
    'GET',
    path,
    body.request_id ?? '',
    body as Record<string, unknown>,
  );
}

/** Hands on each line that is not empty, until the stream ends or is stopped. */
export async function eachLine(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  take: (lines: string[]) => void,
): Promise<void> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop() ?? '';
    const lines = parts.filter((line) => line !== '');
    if (lines.length > 0) take(lines);
  }
}
