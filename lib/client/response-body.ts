/** Reads a clone to the end; the response itself stays readable. */
export async function readToEnd(response: Response): Promise<void> {
  const clone = response.clone();
  const reader = readerOf(clone);
  if (reader === undefined) {
    await clone.text();
    return;
  }
  for (let done = false; !done;) ({ done } = await reader.read());
}

/** The text of a clone; '' if it is longer than `maxBytes`. */
export async function textWithin(maxBytes: number, response: Response): Promise<string> {
  if (Number(response.headers.get('content-length')) > maxBytes) return '';
  const clone = response.clone();
  const reader = readerOf(clone);
  if (reader === undefined) {
    const text = await clone.text();
    // A character has at least one byte.
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

/** Undefined without a web stream: responses of React Native and polyfills have only a reliable `text()`. */
function readerOf({ body }: Response): ReadableStreamDefaultReader<Uint8Array> | undefined {
  const stream: Partial<ReadableStream<Uint8Array>> | null | undefined = body;
  return stream?.getReader?.();
}
