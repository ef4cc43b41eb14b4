import { fileURLToPath } from 'node:url';
import { transformFile } from '@swc/core';

const ENTRIES = new Map([
  ['nestjs-idempotency', '../../../lib/index.ts'],
  ['nestjs-idempotency/redis', '../../../lib/stores/redis/index.ts'],
  ['nestjs-idempotency/postgres', '../../../lib/stores/postgres/index.ts'],
  ['nestjs-idempotency/memory', '../../../lib/stores/memory/index.ts'],
  ['nestjs-idempotency/bullmq', '../../../lib/bullmq/index.ts'],
  ['nestjs-idempotency/pg', '../../../lib/transactions/pg/index.ts'],
  ['nestjs-idempotency/kysely', '../../../lib/transactions/kysely/index.ts'],
  ['nestjs-idempotency/drizzle', '../../../lib/transactions/drizzle/index.ts'],
  ['nestjs-idempotency/knex', '../../../lib/transactions/knex/index.ts'],
  ['nestjs-idempotency/typeorm', '../../../lib/transactions/typeorm/index.ts'],
  ['nestjs-idempotency/prisma', '../../../lib/transactions/prisma/index.ts'],
  ['nestjs-idempotency/messagepack', '../../../lib/codecs/messagepack/index.ts'],
]);

export function resolve(specifier, context, next) {
  const entry = ENTRIES.get(specifier);
  if (entry !== undefined) return next(new URL(entry, import.meta.url).href, context);
  const fromTypeScript = context.parentURL?.endsWith('.ts') ?? false;
  if (fromTypeScript && specifier.startsWith('.')) {
    return next(specifier.replace(/\.js$/, '.ts'), context);
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context);
  const { code } = await transformFile(fileURLToPath(url), {
    swcrc: false,
    sourceMaps: 'inline',
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: true },
      keepClassNames: true,
    },
    module: { type: 'es6' },
  });
  return { format: 'module', source: code, shortCircuit: true };
}
