// Made from package.json by "npm run texts".

/** The instrumentation scope of all spans and metrics. */
export const SCOPE = { name: 'nestjs-idempotency', version: '0.1.0' } as const;
