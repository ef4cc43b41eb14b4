/** A body that can be sent any number of times: its bytes at the start of the call. */
interface RepeatableBody {
  readonly body: ArrayBuffer | Blob | undefined;
  /** The type that `fetch` derives from the body, with the boundary of a form's bytes. */
  readonly contentType: string | undefined;
}

export class RepeatableRequest {
  private constructor(
    private readonly input: string | Request,
    private readonly init: RequestInit,
  ) {}

  /**
   * Copies its input before the first await, so later changes by the caller have no effect.
   * @throws TypeError if `fetch` could not send the request, or only once.
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
        `idempotentFetch sets the header ${field.name} itself: pass the key as its option "key".`,
      );
    }
    headers.set(field.name, field.value);
    const target = isRequest(input) ? input : String(input);
    // Each try has its own signal; a Request with the caller's signal would never stop listening to it.
    const own = { ...init, headers, signal: null };
    const { body, contentType } = await repeatableBody(input, init, bufferStream);
    if (contentType !== undefined && !headers.has('content-type')) {
      headers.set('content-type', contentType);
    }
    return new RepeatableRequest(target, { ...own, body: body ?? null });
  }

  /** Throws `fetch`'s TypeError for an invalid request. In `fetch` it looks like a network error, which is retried. */
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
  // Immutable, and possibly larger than the memory.
  if (body instanceof Blob) return { body, contentType: undefined };
  if (isStream(body) && !bufferStream) {
    throw new TypeError(
      'A stream can be sent only once, but idempotentFetch may have to retry it. Pass the body as a string, bytes, Blob, FormData or URLSearchParams, or set bufferStream: true.',
    );
  }
  const encoded = new Response(body);
  const contentType = encoded.headers.get('content-type') ?? undefined;
  return { body: await encoded.arrayBuffer(), contentType };
}

/** The body that the Request would send. Not decided by its `body`, which some browsers lack. */
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
