import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { buildSchema, parse, validate } from 'graphql';
import { complaintsOnPages, samplesOf } from '../support/documented-typescript.js';
import { projectRoot } from '../support/project-root.js';

interface Page {
  readonly page: string;
  /** So many are compiled here; files that are tested beside what they do are not. */
  readonly count: number;
  readonly testedIn?: string;
  /** What the page leaves to its reader. */
  readonly otherFiles: Readonly<Record<string, string>>;
}

const PAGES: readonly Page[] = [
  {
    page: 'docs/calls.md',
    count: 5,
    testedIn: 'recipes',
    otherFiles: {
      'billing.ts': `
        export interface Invoice { readonly id: string; readonly tenant: string; readonly amount: number; readonly to: string }
        export interface Receipt { readonly id: string }
        export declare class Mailer { send(invoice: Invoice, signal?: AbortSignal): Promise<Receipt>; }
        export declare class Reports { make(): Promise<void>; }`,
      'shop.ts': `
        export interface Order { readonly id: string }
        export declare class Shop { place(order: Order): Promise<{ placed: string }>; }`,
      'stripe.ts': `
        export interface Payment { readonly amount: number }
        export declare class Stripe {
          charge(payment: Payment, options: { idempotencyKey: string }): Promise<unknown>;
        }`,
    },
  },
  {
    page: 'docs/fencing.md',
    count: 1,
    otherFiles: {
      'carrier.ts': 'export declare class Carrier { print(order: string): Promise<string>; }',
    },
  },
  {
    page: 'docs/graphql.md',
    count: 2,
    otherFiles: {
      'payments.ts': `import type { CanActivate } from '@nestjs/common';
        export declare class ChargeInput { readonly amount: number }
        export declare class Charge { readonly id: string; readonly amount: number }
        export declare class Payments {
          charge(input: ChargeInput): Promise<Charge>;
          settle(): Promise<{ cents: number; at: Date }>;
        }
        export declare class SessionGuard implements CanActivate { canActivate(): boolean }`,
    },
  },
  {
    page: 'docs/recovery.md',
    count: 3,
    otherFiles: {
      'payments.ts': `export declare class Payments {
        findByKey(key: string, scope: readonly unknown[], signal: AbortSignal): Promise<{ id: number } | undefined>;
      }`,
      // What one sample takes from another.
      'recover-payment.ts': samplesOf('docs/recovery.md')[0] ?? '',
    },
  },
  {
    page: 'docs/testing.md',
    count: 1,
    testedIn: 'testing/recipes',
    otherFiles: { 'app.module.ts': 'export declare class AppModule {}' },
  },
  {
    page: 'docs/websockets.md',
    count: 4,
    otherFiles: {
      'orders.ts': `import type { CanActivate } from '@nestjs/common';
        export interface Order { readonly id: string }
        export declare class Orders {
          place(order: Order): Promise<Order>;
          cancel(order: Order): Promise<Order>;
        }
        export declare class Cards { add(): Promise<object> }
        export declare class SessionGuard implements CanActivate { canActivate(): boolean }`,
    },
  },
];

/** The texts of all files below a folder of these tests. */
function textsIn(folder: string): Set<string> {
  const path = join(projectRoot, 'test/e2e', folder);
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' });
  const sources = names.filter((name) => name.endsWith('.ts'));
  return new Set(sources.map((name) => readFileSync(join(path, name), 'utf8')));
}

const pages = PAGES.map(({ page, count, testedIn, otherFiles }) => {
  const tested = testedIn === undefined ? new Set() : textsIn(testedIn);
  const samples = samplesOf(page).filter((sample) => !tested.has(sample));
  return { page, count, samples, otherFiles };
});

describe('the TypeScript in docs', () => {
  it.each(pages)('is there: $page', ({ count, samples }) => {
    expect(samples).toHaveLength(count);
  });

  it('compiles as it stands', () => {
    expect(complaintsOnPages(pages)).toEqual([]);
  }, 60_000);
});

describe('the documents of GraphQL in docs', () => {
  const schema = buildSchema(`
    directive @idempotent(key: String!) on FIELD
    input ChargeInput { amount: Int! }
    type Charge { id: ID! amount: Int! }
    type Query { charges: [Charge!]! }
    type Mutation { charge(input: ChargeInput!): Charge }
  `);

  it('are valid', () => {
    const page = readFileSync(join(projectRoot, 'docs/graphql.md'), 'utf8');
    const documents = [...page.matchAll(/```graphql\n(.*?)```/gs)].map(([, text = '']) => text);
    expect(documents).toHaveLength(1);
    for (const document of documents) expect(validate(schema, parse(document))).toEqual([]);
  });
});
