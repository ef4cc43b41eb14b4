/** The other members, and callbacks for them. */
interface Without {
  /** What replaces the stream; nothing by default. */
  readonly body?: object;
  readonly onText?: () => void;
}

/**
 * `fetch` with responses as those of React Native and the polyfill whatwg-fetch: they have `text()` and
 * `clone()`, and no stream as `body`.
 */
export function fetchWithoutStreams(without: Without = {}): typeof fetch {
  return async (input, init) => withoutStreams(await fetch(input, init), without);
}

function withoutStreams(response: Response, without: Without): Response {
  return new Proxy(response, {
    get(target, name) {
      if (name === 'body') return without.body;
      if (name === 'clone') return () => withoutStreams(target.clone(), without);
      if (name === 'text') without.onText?.();
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}
