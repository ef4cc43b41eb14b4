/** Reads a clone to the end; the other branch keeps the bytes for whoever reads the response. */
export async function readToEnd(response: Response): Promise<void> {
  const clone = response.clone();
  const reader = readerOf(clone);
  if (reader === undefined) {
    await clone.text();
    return;
  }
  for (let done = false; !done;) ({ done } = await reader.read());
}

/** The text of a clone, or nothing where it is longer. */
export async function textWithin(maxBytes: number, response: Response): Promise<string> {
  if (Number(response.headers.get('content-length')) > maxBytes) return '';
  const clone = response.clone();
  const reader = readerOf(clone);
  if (reader === undefined) {
    const text = await clone.text();
    // No character takes less than a byte.
    return text.length > maxBytes ? '' : text;
  }
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > maxBytes) {
      void reader.cancel();
      return '';
    }
    text += decoder.decode(value, { stream: true });
  }
}

/**
 * Nothing where there is no stream, or none of the web's: React Native's answers and those of polyfills have no `body`,
 * and all that can be relied on is `text()`.
 */
function readerOf({ body }: Response): ReadableStreamDefaultReader<Uint8Array> | undefined {
  const stream: Partial<ReadableStream<Uint8Array>> | null | undefined = body;
  return stream?.getReader?.();
}
