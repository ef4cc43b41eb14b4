import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { compileFunction } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { StreamableFile, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { InterceptorsConsumer } from '@nestjs/core/interceptors/interceptors-consumer.js';
import { transformSync } from '@swc/core';
import {
  catchError,
  concat,
  EMPTY,
  isObservable,
  lastValueFrom,
  map,
  NEVER,
  Observable,
  of,
  retry,
  Subject,
  takeUntil,
  throwError,
} from 'rxjs';
import { callInTurn, maybeAsync, thisContext } from '../../support/internals/nest.js';
import { projectRoot } from '../../support/project-root.js';

type Next = () => Promise<unknown>;
type CallInTurn = typeof callInTurn;
type Intercept = NestInterceptor['intercept'];

const SOURCE = readFileSync(join(projectRoot, 'lib/nest/interceptor-chain.ts'), 'utf8');

/** What Nest calls: the interceptors outside of the library's, that one, and the handler. */
interface Scene {
  readonly outer: readonly Intercept[];
  readonly next: Next;
  /** What has become of it beside the response. */
  readonly notes: unknown[];
}

const surrounding = new AsyncLocalStorage<string>();

/** As the library's own: its stream does nothing until it is subscribed to; it may ask for the handler in a context. */
const ofLibrary: Intercept = (_, next) =>
  new Observable((subscriber) =>
    surrounding.run('library', () => next.handle()).subscribe(subscriber),
  );

const planned = () => new Error('planned');
const mapped = (change: (value: unknown) => unknown): Intercept => {
  return (_, next) => next.handle().pipe(map(change));
};

const passing: Intercept = (_, next) => next.handle();

/** An interceptor that leaves before the handler has returned a body, and what is noted of the body. */
function leaving(body: (notes: unknown[]) => unknown): () => Scene {
  return () => {
    const notes: unknown[] = [];
    const left = new Subject<void>();
    const outer: Intercept = (_, next) => concat(next.handle().pipe(takeUntil(left)), of('left'));
    const next = async () => {
      left.next();
      await Promise.resolve();
      return body(notes);
    };
    return { outer: [outer], next, notes };
  };
}

const scene = (outer: readonly Intercept[], next: Next, notes: unknown[] = []): Scene => {
  return { outer, next, notes };
};

const SCENES: Readonly<Record<string, () => Scene>> = {
  'in their order': () => {
    const notes: unknown[] = [];
    const named = (name: string): Intercept => {
      return (_, next) => {
        notes.push(name);
        return next.handle().pipe(map((value) => [name, value]));
      };
    };
    return scene([named('a'), named('b'), named('c')], () => Promise.resolve('value'), notes);
  },
  'with one context': () => {
    const contexts = new Set<ExecutionContext>();
    const notes: unknown[] = [];
    const noting: Intercept = (context, next) => {
      contexts.add(context);
      return next.handle().pipe(map(() => contexts.size));
    };
    return scene([noting, noting], () => Promise.resolve(), notes);
  },
  'one that waits': () => {
    const waiting: Intercept = async (_, next) => {
      await Promise.resolve();
      return next.handle();
    };
    return scene([waiting, waiting], () => Promise.resolve('value'));
  },
  'one that calls nothing': () => {
    const notes: unknown[] = [];
    const noting: Intercept = (_, next) => {
      notes.push('called');
      return next.handle();
    };
    const asking: Intercept = (_, next) => {
      next.handle();
      return of('own');
    };
    return scene([asking, noting], () => Promise.resolve(notes.push('handler')), notes);
  },
  'in the context of who has asked': () => {
    const notes: unknown[] = [];
    const noting: Intercept = (_, next) => {
      notes.push(surrounding.getStore());
      return surrounding.run('inner', () => next.handle());
    };
    const around: Intercept = (_, next) => surrounding.run('outer', () => next.handle());
    const next = () => {
      notes.push(surrounding.getStore());
      return Promise.resolve('value');
    };
    return scene([around, noting, passing], next, notes);
  },
  'one that catches what an inner one throws': () => {
    const throwing: Intercept = () => {
      throw planned();
    };
    const catching: Intercept = (_, next) => next.handle().pipe(catchError(() => of('caught')));
    return scene([catching, throwing], () => Promise.resolve('value'));
  },
  'a handler that fails': () => scene([passing], () => Promise.reject(planned())),
  'a handler that fails once': () => {
    let calls = 0;
    const retrying: Intercept = (_, next) => next.handle().pipe(retry(1));
    return scene([retrying, passing], () => {
      calls += 1;
      return calls === 1 ? Promise.reject(planned()) : Promise.resolve(calls);
    });
  },
  'a handler with a stream': () => scene([passing], () => Promise.resolve(of(1, 2))),
  'a value before an empty stream': () =>
    scene([(_, next) => concat(of('own'), next.handle())], () => Promise.resolve(EMPTY)),
  'no value': () => scene([() => EMPTY], () => Promise.resolve('value')),
  'an error after a value': () =>
    scene([(_, next) => concat(next.handle(), throwError(planned))], () => Promise.resolve(1)),
  'a value after a file': () =>
    scene([(_, next) => concat(of(Readable.from(['file'])), next.handle())], () =>
      Promise.resolve('value'),
    ),
  'a stream as a value': () => scene([mapped(() => of(1))], () => Promise.resolve('value')),
  'a promise as a value': () =>
    scene([mapped(() => Promise.resolve(1))], () => Promise.resolve('value')),
  'a file that comes too late': leaving((notes) =>
    Readable.from(['file']).once('close', () => notes.push('closed')),
  ),
  'a streamable file that comes too late': leaving(
    (notes) =>
      new StreamableFile(Readable.from(['file']).once('close', () => notes.push('closed'))),
  ),
  'a web stream that comes too late': leaving(
    (notes) => new ReadableStream({ cancel: () => void notes.push('cancelled') }),
  ),
  'a web response that comes too late': leaving(
    (notes) => new Response(new ReadableStream({ cancel: () => void notes.push('cancelled') })),
  ),
  'a generator that comes too late': leaving((notes) => ({
    [Symbol.asyncIterator]() {
      return this;
    },
    return: () => Promise.resolve(notes.push('ended')),
  })),
};

const NEVER_SENT = 'nothing';
const context = {} as ExecutionContext;

/** What Nest would send, and the notes. */
async function seen(
  { outer, next, notes }: Scene,
  call: (interceptors: readonly NestInterceptor[], next: Next) => Promise<unknown>,
) {
  const interceptors = [...outer, ofLibrary].map((intercept) => ({ intercept }));
  const sending = (async () => {
    const result = await call(interceptors, next);
    return isObservable(result) ? lastValueFrom(result) : result;
  })();
  const sent = await Promise.race([
    sending.catch((error: unknown) => ({ error: (error as Error).message })),
    turns().then(() => NEVER_SENT),
  ]);
  await turns();
  return { sent: isObservable(sent) ? 'a stream' : sent, notes };
}

/** Long enough for whatever waits for no clock. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

const consumer = new InterceptorsConsumer();
const byNest = (interceptors: readonly NestInterceptor[], next: Next) =>
  consumer.intercept([...interceptors], [], {}, turns, next, 'http');
const by =
  (chain: CallInTurn) =>
  ([outermost, ...inner]: readonly NestInterceptor[], next: Next) =>
    chain(outermost!, inner, context, next);

async function differences(chain: CallInTurn): Promise<string[]> {
  const differing: string[] = [];
  for (const [name, make] of Object.entries(SCENES)) {
    const expected = await seen(make(), byNest);
    const actual = await seen(make(), by(chain));
    if (JSON.stringify(actual) !== JSON.stringify(expected)) differing.push(name);
  }
  return differing;
}

/** Those of these results for which Nest does not wait by itself. */
async function unwatched(chain: CallInTurn): Promise<string[]> {
  const file = new Readable();
  const callable = Object.assign(() => undefined, { then: () => undefined });
  const left: string[] = [];
  const endless = new Observable(() => () => void left.push('the stream'));
  const results: Readonly<Record<string, Scene>> = {
    'no value': scene([() => EMPTY], () => Promise.resolve()),
    'an error': scene([passing], () => Promise.reject(planned())),
    'a stream': scene([passing], () => Promise.resolve(endless)),
    'a promise': scene([mapped(rejected)], () => Promise.resolve()),
    'a callable promise': scene([mapped(() => callable)], () => Promise.resolve()),
    'a file': scene([mapped(() => file)], () => Promise.resolve()),
    'a revoked proxy': scene([mapped(revoked)], () => Promise.resolve()),
  };
  const found: string[] = [];
  for (const [name, { outer, next }] of Object.entries(results)) {
    const interceptors = [...outer, ofLibrary].map((intercept) => ({ intercept }));
    const calling = by(chain)(interceptors, next).catch(() => undefined);
    const result = await Promise.race([calling, turns()]);
    if (!isObservable(result)) found.push(name);
    else if (name === 'a stream') result.subscribe().unsubscribe();
    else result.subscribe({ error: () => undefined });
  }
  if (left.length === 0) found.push('the end of a stream');
  if (file.listenerCount('error') === 0) found.push('the error of a file');
  return found;
}

function rejected(): Promise<never> {
  const promise = Promise.reject(planned());
  // Nest would wait for it.
  promise.catch(() => undefined);
  return promise;
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('interceptors outside of this library’s', () => {
  it.each(Object.entries(SCENES))("are called as by Nest's own consumer: %s", async (_, make) => {
    const expected = await seen(make(), byNest);
    expect(expected.sent).not.toBe(NEVER_SENT);
    expect(await seen(make(), by(callInTurn))).toEqual(expected);
  });

  it('give Nest a stream of what it has to watch, and else a value', async () => {
    expect(await unwatched(callInTurn)).toEqual([]);
    for (const value of [undefined, null, 1, 'text', {}, [1], new Date(0), Buffer.from('b')]) {
      const call = by(callInTurn)([{ intercept: passing }, { intercept: ofLibrary }], () =>
        Promise.resolve(value),
      );
      expect(await call).toBe(value);
    }
  });

  it('are waited for', async () => {
    const call = by(callInTurn)([{ intercept: () => NEVER }], () => Promise.resolve());
    expect(await Promise.race([call, turns().then(() => NEVER_SENT)])).toBe(NEVER_SENT);
  });
});

/** Text of the chain, and what a mistake makes of it. */
const MISTAKES: readonly (readonly [mistake: string, text: string, planted: string])[] = [
  ['they are called in the opposite order', 'inner.reduceRight<', 'inner.reduce<'],
  ['each is called before it is subscribed to', 'after === handler)', 'true)'],
  [
    'an inner one is called in the context of its subscriber',
    'inThisContext(() => this.call())',
    '() => this.call()',
  ],
  [
    'the handler is called in the context of its subscriber',
    'inThisContext(this.next)',
    'this.next',
  ],
  [
    'the stream of one that waits is taken for its value',
    'from(stream).pipe(mergeAll())',
    'from(stream)',
  ],
  ["a handler's stream is waited for here", 'if (isObservable(value)) this.result.asStream();', ''],
  [
    'the stream goes on that Nest has left',
    'stream.pipe(finalize(() => this.subscription?.unsubscribe()))',
    'stream',
  ],
  ['a value before a stream is lost', 'if (this.value !== NONE) stream.next(this.value);', ''],
  [
    'a stream that Nest waits for does not end',
    'if (this.stream === undefined && this.value !== NONE)',
    'if (this.value !== NONE)',
  ],
  ['a value after a file is lost', 'else this.stream.next(value);', 'else this.value = value;'],
  ['an error is lost after Nest has got nothing', 'this.asStream().error(error);', ''],
  [
    'a stream is sent as a value',
    'isObservable(value) || isThenable(value) ||',
    'isThenable(value) ||',
  ],
  ['a promise is sent as a value', '|| isThenable(value) ||', '||'],
  ['a callable promise is sent as a value', "return typeof value !== 'function';", 'return true;'],
  ['a file is sent as a value', '|| Symbol.asyncIterator in value', ''],
  ['nobody listens to a file', '      listenForError(value);\n', ''],
  ['a revoked proxy is sent as a value', '    return false;', '    return true;'],
  [
    'a late body is given to one that has left',
    'if (subscriber.closed) discard(value);\n  else if',
    'if',
  ],
  ['a late streamable file stays open', 'value.getStream().destroy()', 'value.getStream()'],
  ['a late file stays open', '[destroy, cancel, end]', '[cancel, end]'],
  ['a late web stream goes on', '[destroy, cancel, end]', '[destroy, end]'],
  ['a late generator goes on', '[destroy, cancel, end]', '[destroy, cancel]'],
  ['a late web response goes on', 'value instanceof Response ? value.body : value', 'value'],
  ['the end of the handler is lost', '    subscriber.complete();', ''],
  ['the error of the handler is lost', 'subscriber.error(error);', 'void error;'],
  ['each gets a context of its own', 'intercept(this.context,', 'intercept({ ...this.context },'],
];

const requireHere = createRequire(import.meta.url);

async function withMistake(text: string, planted: string): Promise<CallInTurn> {
  const parts = SOURCE.split(text);
  expect(parts).toHaveLength(2);
  const { code } = transformSync(parts.join(planted), {
    swcrc: false,
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    module: { type: 'commonjs' },
  });
  const modules: Readonly<Record<string, unknown>> = {
    '@nestjs/common': await import('@nestjs/common'),
    rxjs: await import('rxjs'),
    '../core/util/maybe-async.js': maybeAsync,
    '../core/util/this-context.js': thisContext,
  };
  const exports = {} as { callInTurn: CallInTurn };
  const load = (name: string) => modules[name] ?? (requireHere(name) as unknown);
  compileFunction(code, ['require', 'exports'])(load, exports);
  return exports.callInTurn;
}

describe('these tests notice that', () => {
  it.each(MISTAKES)('%s', async (_, text, planted) => {
    const chain = await withMistake(text, planted);
    const noticed = [...(await differences(chain)), ...(await unwatched(chain))];
    expect(noticed).not.toEqual([]);
  });
});
