/** What can be sent any number of times: the body as bytes, as it was when the call began. */
interface RepeatableBody {
  readonly body: ArrayBuffer | Blob | undefined;
  /** What `fetch` would have derived from the body: with the boundary that the bytes of a form have. */
  readonly contentType: string | undefined;
}

/** One request, to be sent again and again. */
export class RepeatableRequest {
  private constructor(
    private readonly input: string | Request,
    private readonly init: RequestInit,
  ) {}

  /**
   * Takes in what is given before it awaits anything: what the caller changes later changes nothing.
   *
   * @param field - the header with the key.
   * @throws TypeError where `fetch` would not send the request either, or only once.
   */
  static async of(
    input: string | URL | Request,
    init: RequestInit,
    field: { readonly name: string; readonly value: string },
    bufferStream: boolean,
  ): Promise<RepeatableRequest> {
    const headers = new Headers(init.headers ?? (isRequest(input) ? input.headers : undefined));
    if (headers.has(field.name)) {
      throw new TypeError(
        `idempotentFetch sets the header ${field.name} itself: give the key as its option "key".`,
      );
    }
    headers.set(field.name, field.value);
    const target = isRequest(input) ? input : String(input);
    // Each try has a signal of its own; a Request made with the caller's would listen to it for ever.
    const own = { ...init, headers, signal: null };
    const { body, contentType } = await repeatableBody(input, init, bufferStream);
    if (contentType !== undefined && !headers.has('content-type')) {
      headers.set('content-type', contentType);
    }
    return new RepeatableRequest(target, { ...own, body: body ?? null });
  }

  /**
   * Finds what is wrong with the request itself before it is sent: `fetch` rejects with a TypeError for that
   * and for a broken network alike, and only the one is worth another try.
   *
   * @throws TypeError as `fetch` would.
   */
  check(): void {
    new Request(this.input, this.init);
  }

  send(
    send: (input: string | URL | Request, init?: RequestInit) => Promise<Response>,
    signal: AbortSignal,
  ): Promise<Response> {
    return send(this.input, { ...this.init, signal });
  }
}

async function repeatableBody(
  input: string | URL | Request,
  { body, method }: RequestInit,
  bufferStream: boolean,
): Promise<RepeatableBody> {
  if (body === undefined || body === null) {
    return {
      body: isRequest(input) ? await bodyOf(input, method) : undefined,
      contentType: undefined,
    };
  }
  // Not to be changed, and possibly larger than the memory.
  if (body instanceof Blob) return { body, contentType: undefined };
  if (isStream(body) && !bufferStream) {
    throw new TypeError(
      'A stream can be sent only once, and idempotentFetch may have to repeat it: give the body as a string, bytes, Blob, FormData or URLSearchParams, or set bufferStream: true.',
    );
  }
  const encoded = new Response(body);
  const contentType = encoded.headers.get('content-type') ?? undefined;
  return { body: await encoded.arrayBuffer(), contentType };
}

/** What the Request would send. Not told by its `body`, which not every browser shows. */
async function bodyOf(request: Request, method = request.method): Promise<ArrayBuffer | undefined> {
  if (method === 'GET' || method === 'HEAD') return undefined;
  return request.arrayBuffer();
}

/** Not by its class: there are other implementations. */
export function isRequest(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'method' in input;
}

function isStream(body: unknown): boolean {
  return (
    typeof body === 'object' &&
    body !== null &&
    ('getReader' in body || Symbol.asyncIterator in body)
  );
}
