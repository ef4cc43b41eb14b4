/** What the names of the tests cannot say of a clause, in Markdown. A clause without a note holds by default. */
export type Note =
  /** By default, within limits. */
  | { readonly byDefault: string }
  /** Only where the application asks for it. */
  | { readonly with: string }
  /** Not at all, and why. */
  | { readonly doesNot: string };

export const notes: Readonly<Record<string, Note>> = {
  C04: { with: "`key: { syntax: 'strict' }`" },
  C19: { with: '`key: { required: false }`' },
  C31a: { with: '`caller.scope`, a function: only the application knows what its tenants are' },
  C35: {
    byDefault:
      "for integers up to 2^53 and members that stand once: `JSON.parse` leaves nothing else to compare, `fingerprint: 'bytes'` does",
  },
  C46: { byDefault: 'where a body parser of the application takes the media type' },
  C47: {
    byDefault:
      'where the parts are parsed before this interceptor: by one of multer outside it, or @fastify/multipart with `attachFieldsToBody`; else `fingerprint` has to be a function',
  },
  C55: { with: "`duplicates: 'wait'`" },
  C60: { with: 'a store that processes share, such as `redisStore()`' },
  C60a: { byDefault: 'tested by the clock of a store in the same process' },
  C60b: { byDefault: 'tested by the clock of a store in the same process' },
  C73a: { with: "`EXPOSED_HEADERS` in the application's CORS settings" },
  C82b: { with: '`documentIdempotency()` of `nestjs-idempotency/swagger`' },
  C82c: { with: '`outcome: { bodyRetention }`' },
  C87d: { with: '`outcome: { storeBody: false }`' },
};
