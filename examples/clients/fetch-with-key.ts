import { idempotentFetch } from 'nestjs-idempotency-client';

/** A `fetch` that keeps one key over its tries: for libraries that take one. */
export const fetchWithKey =
  (key: string): typeof fetch =>
  async (input, init) =>
    (await idempotentFetch(input, init, { key })).response;
