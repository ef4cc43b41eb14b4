export type HeaderLine = readonly [name: string, value: string];

/** How the bytes of a body are framed; all but the first two contradict what is sent. */
export type Framing =
  | 'length'
  | 'chunked'
  | 'chunked-with-trailers'
  | 'too-long'
  | 'too-short'
  | 'two-lengths'
  | 'length-and-chunked'
  | 'no-length'
  | 'odd-length'
  | 'bad-chunk';

export interface FuzzedBody {
  readonly bytes: Buffer;
  readonly types: readonly string[];
  readonly coding?: string;
}

/** What is sent, except the number that identifies one sending. */
export interface FuzzedContent {
  readonly method: string;
  readonly target: string;
  /** Values of the key's field, one per line. */
  readonly keyLines: readonly string[];
  /** The field's name, in some mixture of cases. */
  readonly keyName: string;
  /** The caller: a known user, a stranger, or anonymous. */
  readonly caller: string | undefined;
  readonly body: FuzzedBody | undefined;
  readonly framing: Framing;
  readonly otherLines: readonly HeaderLine[];
  /** Only the beginning is sent, then the client leaves: a share of the whole. */
  readonly cutAt: number | undefined;
  /** The server may lose its place in the connection, or close it. */
  readonly isOdd: boolean;
  /** The request is correct, and its key is new: it has to be executed. */
  readonly isPlain: boolean;
}

export interface FuzzedRequest {
  readonly number: number;
  readonly content: FuzzedContent;
}

/** By this header the application identifies the executed request; the library does not read it. */
export const NUMBER_HEADER = 'x-number';
/** And by this one the run: each has its own callers, whose keys no other run has used. */
export const RUN_HEADER = 'x-run';

export function encode({ number, content }: FuzzedRequest, run: number): Buffer {
  const { method, target, keyLines, keyName, caller, body, otherLines, isOdd, cutAt } = content;
  const lines: HeaderLine[] = [
    ['Host', '127.0.0.1'],
    [NUMBER_HEADER, String(number)],
    [RUN_HEADER, String(run)],
    ['Connection', isOdd ? 'close' : 'keep-alive'],
    ...keyLines.map((value): HeaderLine => [keyName, value]),
    ...(caller === undefined ? [] : [['Authorization', `Bearer ${caller}`] as const]),
    ...(body?.types ?? []).map((type): HeaderLine => ['Content-Type', type]),
    ...(body?.coding === undefined ? [] : [['Content-Encoding', body.coding] as const]),
  ];
  const framed = frame(body?.bytes, content.framing);
  const head = [
    `${method} ${target} HTTP/1.1`,
    ...[...lines, ...framed.lines, ...otherLines].map(([name, value]) => `${name}: ${value}`),
  ].join('\r\n');
  const whole = Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), framed.bytes]);
  return cutAt === undefined ? whole : whole.subarray(0, Math.floor(cutAt * whole.length));
}

interface Framed {
  readonly lines: readonly HeaderLine[];
  readonly bytes: Buffer;
}

function frame(bytes: Buffer | undefined, framing: Framing): Framed {
  if (bytes === undefined) return { lines: [], bytes: Buffer.alloc(0) };
  const length = (value: number | string): HeaderLine => ['Content-Length', String(value)];
  const chunked: HeaderLine = ['Transfer-Encoding', 'chunked'];
  switch (framing) {
    case 'length':
      return { lines: [length(bytes.length)], bytes };
    case 'chunked':
      return { lines: [chunked], bytes: inChunks(bytes, '') };
    case 'chunked-with-trailers':
      return {
        lines: [chunked, ['Trailer', 'Idempotency-Key']],
        bytes: inChunks(bytes, 'Idempotency-Key: from-the-trailer\r\n'),
      };
    case 'too-long':
      return { lines: [length(Math.max(0, bytes.length - 3))], bytes };
    case 'too-short':
      return { lines: [length(bytes.length + 3)], bytes };
    case 'two-lengths':
      return { lines: [length(bytes.length), length(bytes.length + 1)], bytes };
    case 'length-and-chunked':
      return { lines: [length(bytes.length), chunked], bytes: inChunks(bytes, '') };
    case 'no-length':
      return { lines: [], bytes };
    case 'odd-length':
      return { lines: [length(`+${bytes.length}`)], bytes };
    case 'bad-chunk':
      return { lines: [chunked], bytes: Buffer.concat([Buffer.from('zz\r\n'), bytes]) };
  }
}

function inChunks(bytes: Buffer, trailers: string): Buffer {
  const middle = Math.ceil(bytes.length / 2);
  const chunks = [bytes.subarray(0, middle), bytes.subarray(middle)]
    .filter(({ length }) => length > 0)
    .flatMap((chunk) => [
      Buffer.from(`${chunk.length.toString(16)}\r\n`),
      chunk,
      Buffer.from('\r\n'),
    ]);
  return Buffer.concat([...chunks, Buffer.from(`0\r\n${trailers}\r\n`)]);
}
