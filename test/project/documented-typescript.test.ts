import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { blocksOf, complaintAbout, documentationPages } from '../support/docs/documented-blocks.js';
import {
  complaintsInBrowsers,
  complaintsInCommonJs,
  complaintsInModules,
  complaintsWith,
  documentedRecipes,
  documentedSamples,
  pageOf,
  samplesOf,
  type UncheckedByTests,
} from '../support/docs/documented-typescript.js';
import { TSCONFIGS } from '../support/docs/tsconfigs.js';
import { projectRoot } from '../support/project-root.js';

/** The compiler reads what the package's peers declare, once for each kind of project. */
jest.setTimeout(300_000);

const samples = documentedSamples();
/** Those that are whole files: they have imports. The others are excerpts. */
const files = samples.filter(({ code }) => /^import /m.test(code));

/** What is compiled, linted and run elsewhere, and shown as it is. */
const recipes = new Set(
  readdirSync(join(projectRoot, 'examples'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(projectRoot, 'examples', name), 'utf8')),
);

/** The pages whose samples compile as they are, and what they leave to the reader. */
const left: UncheckedByTests = {
  'packages/client/README.md': {},
  'docs/guides/calls.md': {
    'billing.ts': `
      export interface Invoice { readonly id: string; readonly tenant: string; readonly amount: number; readonly to: string }
      export interface Receipt { readonly id: string }
      export declare class Mailer { send(invoice: Invoice, signal?: AbortSignal): Promise<Receipt>; }
      export declare class Reports { make(): Promise<void>; }`,
    'stripe.ts': `
      export interface Payment { readonly amount: number }
      export declare class Stripe {
        charge(payment: Payment, options: { idempotencyKey: string }): Promise<unknown>;
      }`,
  },
  'docs/guides/graphql.md': {
    'payments.ts': `
      import type { CanActivate } from '@nestjs/common';
      export declare class ChargeInput { readonly amount: number }
      export declare class Charge { readonly id: string; readonly amount: number }
      export declare class Payments {
        charge(input: ChargeInput): Promise<Charge>;
        settle(): Promise<{ cents: number; at: Date }>;
      }
      export declare class SessionGuard implements CanActivate { canActivate(): boolean }`,
  },
  'docs/guides/nestjs-idempotency.md': {
    'nestjs.d.ts': `
      declare module '@nestjs/idempotency' {
        export class IdempotencyModule {
          static forRoot(options: { scope: (request: any) => string | undefined }): import('@nestjs/common').DynamicModule;
        }
        export class IdempotencyStorage { registerSource(source: object): void }
      }`,
  },
  'docs/guides/recovery.md': {
    'payments.ts': `
      export declare class Payments {
        findByKey(key: string, scope: readonly unknown[], signal: AbortSignal): Promise<{ id: number } | undefined>;
        charge(payment: Payment): Promise<{ id: number }>;
      }
      export interface Payment { readonly amount: number }`,
    'recover-payment.ts': samplesOf('docs/guides/recovery.md')[0] ?? '',
  },
  'docs/guides/testing-applications.md': { 'app.module.ts': 'export declare class AppModule {}' },
  'docs/guides/values.md': {},
  'docs/guides/websockets.md': {
    'orders.ts': `
      import type { CanActivate } from '@nestjs/common';
      export interface Order { readonly id: string }
      export declare class Orders {
        place(order: Order): Promise<Order>;
        cancel(order: Order): Promise<Order>;
      }
      export declare class Cards { add(): Promise<object> }
      export declare class SessionGuard implements CanActivate { canActivate(): boolean }`,
  },
  'docs/operations/health.md': {},
  'docs/operations/metrics.md': {},
  'docs/operations/telemetry.md': {},
};

describe('the TypeScript in the README and in docs', () => {
  const browser = samples.filter(({ code }) => code.includes('sessionStorage'));
  const compiled = samples.filter(({ place, code }) => pageOf(place) in left && !recipes.has(code));

  it('compiles as it is, with what its page leaves to the reader', () => {
    const pages = compiled.map(({ place }) => pageOf(place));
    expect([...new Set(pages)]).toEqual(Object.keys(left));
    expect(complaintsInModules(compiled, left)).toEqual([]);
  });

  it('compiles as a CommonJS module, too, where it is a whole file', () => {
    // This page is for ES modules alone.
    const both = files.filter(({ place }) => pageOf(place) !== 'docs/getting-started/nest-12.md');
    expect(both.length).toBeGreaterThanOrEqual(30);
    expect(both.filter(({ place }) => pageOf(place) === 'README.md')).toHaveLength(1);
    const code = "import { setTimeout as pause } from 'node:timers/promises';\nawait pause(1);\n";
    expect(complaintsInCommonJs([...both, { place: 'planted, 0', code }])).toEqual([
      expect.stringMatching(/^planted, 0: .*CommonJS.* 'await' at the top level/),
    ]);
  });

  // What stands in a file is compiled there, with all that it imports.
  it.each(['nest new 11', 'nest new 12'])(
    'compiles with the tsconfig of %s, where it comes from a file',
    (name) => {
      const shown = documentedRecipes();
      expect(shown.length).toBeGreaterThan(60);
      expect(complaintsWith(TSCONFIGS[name]!, shown)).toEqual([]);
    },
  );

  it('compiles, with the client, where there is nothing but a browser', () => {
    expect(browser).toHaveLength(1);
    const planted = { place: 'planted, 0', code: 'process.exit();\nexport {};\n' };
    expect(complaintsInBrowsers([...browser, planted])).toEqual([
      expect.stringMatching(/^planted, 0: Cannot find name 'process'/),
    ]);
  });
});

describe('A block of code', () => {
  const complaintsOf = (page: string, text: string) =>
    blocksOf(text).flatMap((block) => {
      const isCompiled = (code: string) =>
        page in left || recipes.has(code) || /^import /m.test(code);
      const complaint = complaintAbout(block, isCompiled);
      return complaint === undefined ? [] : [`${page}:${block.line} ${complaint}`];
    });

  it('of README and docs comes from a file, is compiled, parsed or run, or is a command and its output', () => {
    const complaints = documentationPages().flatMap((page) =>
      complaintsOf(page, readFileSync(join(projectRoot, page), 'utf8')),
    );
    expect(complaints).toEqual([]);
  });

  it.each([
    ['ts', 'charge();', 'is not compiled'],
    ['sql', 'DROP TABLE payments;', 'is not run: documentedSql()'],
    ['json', '{ a: 1 }', expect.stringContaining('is not json: ')],
    ['yaml', 'a: [1', expect.stringContaining('is not yaml: ')],
    ['graphql', 'mutation {', expect.stringContaining('is not graphql: ')],
    ['js', 'pay();', 'is js, of no file'],
    ['', 'npm ci', 'has no language'],
  ])('of the language %j is missed where nothing holds it', (language, text, complaint) => {
    const page = `# Page\n\n- Item:\n\n  \`\`\`${language}\n  ${text}\n  \`\`\`\n`;
    expect(blocksOf(page)).toEqual([
      expect.objectContaining({ line: 5, language, isFromFile: false }),
    ]);
    expect(complaintAbout(blocksOf(page)[0]!, () => false)).toEqual(complaint);
  });

  it.each(['ts', 'sql', 'json', 'js', ''])('of the language %j is held by its file', (language) => {
    const page = `<!-- code: a.file -->\n\n\`\`\`${language}\n{\n\`\`\`\n`;
    expect(complaintAbout(blocksOf(page)[0]!, () => false)).toBeUndefined();
  });
});
