/** One response as received. */
export class RawResponse {
  constructor(
    readonly status: number,
    /** Every header line in order, names as they were sent. */
    readonly lines: readonly (readonly [name: string, value: string])[],
    readonly body: Buffer,
  ) {}

  /** The values of every line with this name. */
  all(name: string): string[] {
    const wanted = name.toLowerCase();
    return this.lines.filter(([found]) => found.toLowerCase() === wanted).map(([, value]) => value);
  }

  /** The value of a header that may occur at most once. */
  header(name: string): string | undefined {
    const values = this.all(name);
    if (values.length > 1)
      throw new Error(`${name} came ${values.length} times: ${values.join(' | ')}`);
    return values[0];
  }

  get text(): string {
    return this.body.toString('utf8');
  }

  get json(): any {
    return JSON.parse(this.text);
  }

  get replayed(): boolean {
    const marker = this.header('idempotent-replayed');
    if (marker !== undefined && marker !== 'true') throw new Error(`odd marker: ${marker}`);
    return marker === 'true';
  }
}

export interface ParsedResponse {
  readonly response: RawResponse;
  /** How many of the bytes belong to it. */
  readonly length: number;
}

/**
 * Reads one response from the start of `bytes`; `undefined` while it is incomplete. Strict where a client of
 * a keep-alive connection would lose its place: a length that does not match, a length beside chunks, a body
 * where none is allowed.
 */
export function parseResponse(bytes: Buffer, method: string): ParsedResponse | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...headerLines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const status = /^HTTP\/1\.1 (\d{3})(?: |$)/.exec(statusLine)?.[1];
  if (status === undefined) throw new Error(`no status line: ${statusLine}`);
  const lines = headerLines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    if (colon < 1) throw new Error(`no header line: ${line}`);
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  const head = new RawResponse(Number(status), lines, Buffer.alloc(0));
  const framed = readBody(bytes.subarray(headEnd + 4), head, method);
  if (framed === undefined) return undefined;
  return {
    response: new RawResponse(head.status, lines, framed.body),
    length: headEnd + 4 + framed.length,
  };
}

function readBody(bytes: Buffer, head: RawResponse, method: string) {
  const lengthHeader = head.header('content-length');
  const coding = head.header('transfer-encoding');
  if (lengthHeader !== undefined && coding !== undefined) {
    throw new Error('Content-Length beside Transfer-Encoding');
  }
  const bodiless = method === 'HEAD' || head.status === 204 || head.status === 304;
  if (bodiless) return { body: Buffer.alloc(0), length: 0 };
  if (coding !== undefined) return readChunks(bytes);
  if (lengthHeader === undefined) {
    // Without a length the body lasts until the connection ends: here, all bytes.
    return { body: bytes, length: bytes.length };
  }
  const length = Number(lengthHeader);
  if (!Number.isSafeInteger(length)) throw new Error(`odd Content-Length: ${lengthHeader}`);
  return bytes.length < length ? undefined : { body: bytes.subarray(0, length), length };
}

function readChunks(bytes: Buffer) {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const start = lineEnd + 2;
    if (size === 0) {
      const trailersEnd = bytes.indexOf('\r\n', start);
      return trailersEnd === -1 ? undefined : { body: Buffer.concat(chunks), length: start + 2 };
    }
    if (bytes.length < start + size + 2) return undefined;
    chunks.push(bytes.subarray(start, start + size));
    at = start + size + 2;
  }
}
