import type { CallSettings } from './options.js';

/** What `fetch` takes, any number of times. */
export interface RepeatableRequest {
  readonly input: string | Request;
  readonly init: RequestInit;
}

/**
 * Copies its input before the first await, so later changes by the caller have no effect.
 * @throws TypeError if `fetch` could not send the request, or only once.
 */
export async function repeatableRequest(
  input: string | URL | Request,
  init: RequestInit,
  { keyHeader, keyField, bufferStream, fetch }: CallSettings,
): Promise<RepeatableRequest> {
  const headers = new Headers(init.headers ?? (isRequest(input) ? input.headers : undefined));
  if (headers.has(keyHeader)) {
    throw new TypeError(
      `idempotentFetch sets the header ${keyHeader} itself: pass the key as its option "key".`,
    );
  }
  if ((init.mode ?? (isRequest(input) ? input.mode : undefined)) === 'no-cors') {
    throw new TypeError(
      `With the mode "no-cors", browsers leave out the header ${keyHeader}: pass another mode, and allow the header by CORS.`,
    );
  }
  headers.set(keyHeader, keyField);
  const target = isRequest(input) ? input : String(input);
  // Each try has its own signal; a Request with the caller's signal would never stop listening to it.
  const copied = { ...init, headers, signal: null };
  const { body, contentType } = await repeatableBody(input, init, bufferStream);
  if (contentType !== undefined && !headers.has('content-type'))
    headers.set('content-type', contentType);
  const request = { input: target, init: { ...copied, body: body ?? null } };
  // In `fetch`, the TypeError for an invalid request looks like a network error, which is retried. Another fetch may
  // accept other URLs.
  if (fetch === undefined) new Request(request.input, request.init);
  return request;
}

/** A body's bytes at the start of the call, and the type that `fetch` derives from it, with the boundary of a form. */
async function repeatableBody(
  input: string | URL | Request,
  { body, method }: RequestInit,
  bufferStream: boolean,
): Promise<{ body: ArrayBuffer | Blob | string | undefined; contentType?: string | undefined }> {
  if (body === undefined || body === null) {
    return { body: isRequest(input) ? await bodyOf(input, method) : undefined };
  }
  // Immutable, and possibly larger than the memory.
  if (body instanceof Blob) return { body };
  if (isStream(body) && !bufferStream) {
    throw new TypeError(
      'A stream can be sent only once, but idempotentFetch may have to retry it. Pass the body as a string, bytes, Blob, FormData or URLSearchParams, or set bufferStream: true.',
    );
  }
  const encoded = new Response(body);
  const contentType = encoded.headers.get('content-type') ?? undefined;
  // Immutable; Node's fetch cannot send bytes again after a redirect that keeps the method.
  if (typeof body === 'string') return { body, contentType };
  return { body: await encoded.arrayBuffer(), contentType };
}

/** The body that the Request would send. Not decided by its `body`, which some browsers lack. */
async function bodyOf(request: Request, method = request.method): Promise<ArrayBuffer | undefined> {
  return method === 'GET' || method === 'HEAD' ? undefined : request.arrayBuffer();
}

/** Whether redirects have led to the response, or to none that may be seen. */
export function isOfAnotherAddress(response: Response, { input }: RepeatableRequest): boolean {
  if (response.type === 'opaqueredirect') return true;
  // Responses of React Native and polyfills lack the former, and some the latter.
  const { redirected, url } = response as Partial<Pick<Response, 'redirected' | 'url'>>;
  if (redirected !== undefined) return redirected;
  if (url === undefined || url === '') return false;
  const requested = isRequest(input) ? input.url : input;
  return withoutFragment(url) !== withoutFragment(requested);
}

function withoutFragment(url: string): string {
  try {
    return new URL(url).href.replace(/#.*/, '');
  } catch {
    // Relative to a base that only `fetch` knows.
    return url;
  }
}

/** Not by its class: there are other implementations. */
export function isRequest(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'method' in input;
}

function isStream(body: object | string): boolean {
  return typeof body === 'object' && ('getReader' in body || Symbol.asyncIterator in body);
}
