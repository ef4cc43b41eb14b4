import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Inject,
  Injectable,
  Module,
  Optional,
  Post,
  Scope,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { ContextIdFactory, LazyModuleLoader, ModuleRef, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  IdempotencyModule,
  IdempotencyOptionsError,
  Idempotent,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { IdempotencyInterceptor } from '../../support/internals/nest.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';

let apps: INestApplicationContext[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

async function started(...given: Parameters<typeof callingApp>) {
  const app = await callingApp(...given);
  apps.push(app.nest);
  return app.nest;
}

@Injectable()
class Mailer {
  protected sent = 0;

  @Idempotent({ key: (id: string) => id })
  async send(_id: string): Promise<{ sent: number; by: string; operation: string }> {
    this.sent += 1;
    const { operation } = requireIdempotencyContext();
    return Promise.resolve({ sent: this.sent, by: this.constructor.name, operation });
  }

  /** Calls the protected method through `this`. */
  async sendTwice(id: string) {
    return [await this.send(id), await this.send(id)];
  }
}

/** Has an injected property, and an optional one. */
@Injectable()
class LoudMailer extends Mailer {
  @Inject(ModuleRef) readonly modules!: ModuleRef;
  @Optional() @Inject('nothing') readonly nothing: unknown;
}

@Injectable()
class SilentMailer extends Mailer {
  override async send(id: string) {
    const reply = await super.send(id);
    return { ...reply, by: `silent ${reply.by}` };
  }
}

describe('a protected method', () => {
  it('runs once when other methods of its instance call it', async () => {
    const mailer = (await started({ providers: [Mailer] })).get(Mailer);
    const [first, second] = await mailer.sendTwice(randomUUID());
    expect(first).toEqual({ sent: 1, by: 'Mailer', operation: 'Mailer.send' });
    expect(second).toEqual(first);
  });

  it('is inherited: each class has its own operation', async () => {
    const app = await started({ providers: [Mailer, LoudMailer, SilentMailer] });
    const id = randomUUID();
    const sendTwice = async (type: Type<Mailer>) => {
      const mailer = app.get(type);
      const first = await mailer.send(id);
      expect(await mailer.send(id)).toEqual(first);
      return first;
    };
    expect(await sendTwice(Mailer)).toMatchObject({ sent: 1, operation: 'Mailer.send' });
    expect(await sendTwice(LoudMailer)).toEqual({
      sent: 1,
      by: 'LoudMailer',
      operation: 'LoudMailer.send',
    });
    // Overridden without a decorator: the base class's method runs once.
    expect(await sendTwice(SilentMailer)).toEqual({
      sent: 1,
      by: 'silent SilentMailer',
      operation: 'SilentMailer.send',
    });
    expect(app.get(LoudMailer).modules).toBeInstanceOf(ModuleRef);
    expect(app.get(LoudMailer).nothing).toBeUndefined();
  });

  it('keeps its name and length', () => {
    const method = Reflect.get(Mailer.prototype, 'send');
    expect([method.name, method.length]).toEqual(['send', 1]);
  });

  it('adds no enumerable property to its instance', async () => {
    const mailer = (await started({ providers: [Mailer] })).get(Mailer);
    expect(Object.keys(mailer)).toEqual(['sent']);
    expect(JSON.stringify(mailer)).toBe('{"sent":0}');
  });

  it('runs once for all instances of a request-scoped class, on the calling instance', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      constructor(@Inject(REQUEST) readonly request: { readonly name: string }) {}

      @Idempotent({ key: (id: string) => id })
      async whoIsIt(_id: string) {
        return Promise.resolve(this.request.name);
      }
    }
    const app = await started({ providers: [PerRequest] });
    const forRequest = async (name: string) => {
      const contextId = ContextIdFactory.create();
      app.registerRequestByContextId({ name }, contextId);
      return app.resolve(PerRequest, contextId);
    };
    const [alice, bob] = [await forRequest('alice'), await forRequest('bob')];
    const id = randomUUID();
    expect(await alice.whoIsIt(id)).toBe('alice');
    expect(await bob.whoIsIt(id)).toBe('alice');
    expect(await bob.whoIsIt(randomUUID())).toBe('bob');
  });

  it('runs once for all instances of a transient class', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends Mailer {}
    const app = await started({ providers: [Transient] });
    const id = randomUUID();
    const [first, second] = [await app.resolve(Transient), await app.resolve(Transient)];
    expect(first).not.toBe(second);
    expect(await second.send(id)).toEqual(await first.send(id));
  });

  it('belongs to the application of its instance when there are several', async () => {
    const [one, two] = [
      await started({ providers: [Mailer] }),
      await started({ providers: [Mailer] }),
    ];
    const id = randomUUID();
    await one.get(Mailer).send(randomUUID());
    expect(await one.get(Mailer).send(id)).toMatchObject({ sent: 2 });
    expect(await two.get(Mailer).send(id)).toMatchObject({ sent: 1 });
    expect(await one.get(Mailer).send(id)).toMatchObject({ sent: 2 });
  });

  it('belongs to the IdempotencyModule that its module imports when there are two', async () => {
    @Injectable()
    class OtherMailer extends Mailer {}
    const stores = [memoryStore(), memoryStore()];
    const [inOne, inTwo] = stores.map((store) =>
      IdempotencyModule.forRoot({ store, isGlobal: false }),
    );
    @Module({ imports: [inOne!], providers: [Mailer] })
    class One {}
    @Module({ imports: [inTwo!], providers: [OtherMailer] })
    class Two {}
    const nest = await Test.createTestingModule({ imports: [One, Two] }).compile();
    apps.push(await nest.init());
    await nest.get(Mailer, { strict: false }).send('k');
    expect(stores.map(({ size }) => size)).toEqual([1, 0]);
    await nest.get(OtherMailer, { strict: false }).send('k');
    expect(stores.map(({ size }) => size)).toEqual([1, 1]);
  });

  it('is protected in a lazily loaded module', async () => {
    const app = await started({});
    @Module({ providers: [Mailer] })
    class Later {}
    const loaded = await app.get(LazyModuleLoader).load(() => Later);
    const mailer = loaded.get(Mailer);
    const id = randomUUID();
    expect(await mailer.send(id)).toEqual(await mailer.send(id));
  });

  it('is protected on an instance that ModuleRef creates', async () => {
    const app = await started({});
    const mailer = await app.get(ModuleRef).create(Mailer);
    const id = randomUUID();
    expect(await mailer.send(id)).toEqual(await mailer.send(id));
  });
});

describe('a controller', () => {
  @Controller()
  class Orders {
    placed = 0;

    @Post()
    @Idempotent({ key: () => 'k' })
    async place() {
      this.placed += 1;
      return Promise.resolve(this.placed);
    }

    @Idempotent({ key: (id: string) => id })
    async confirm(_id: string) {
      this.placed += 1;
      return Promise.resolve(this.placed);
    }
  }

  it('has routes, which other code calls as plain methods, and methods that run once', async () => {
    const orders = (await started({ controllers: [Orders] })).get(Orders);
    expect([await orders.place(), await orders.place()]).toEqual([1, 2]);
    expect([await orders.confirm('k'), await orders.confirm('k')]).toEqual([3, 3]);
  });

  it('works without the module when a test overrides the interceptor', async () => {
    const nest = await Test.createTestingModule({ controllers: [Orders] })
      .overrideInterceptor(IdempotencyInterceptor)
      .useValue({ intercept: () => undefined })
      .compile();
    apps.push(await nest.init());
    expect(await nest.get(Orders).place()).toBe(1);
    expect(await rejection(nest.get(Orders).confirm('k'))).toBeInstanceOf(IdempotencyOptionsError);
  });
});

describe('a protected method rejects instead of running unprotected', () => {
  const rejected = async (calling: Promise<unknown>, message: RegExp) => {
    const error = await rejection(calling);
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    expect(error.message).toMatch(message);
  };

  it('on an instance that was created without Nest', async () => {
    await started({ providers: [Mailer] });
    await rejected(
      new Mailer().send('k'),
      /^Mailer\.send\(\) is idempotent .* unprotected\(new Mailer\(/,
    );
  });

  it('without an instance', async () => {
    const app = await started({ providers: [Mailer] });
    const send: Mailer['send'] = Reflect.get(app.get(Mailer), 'send');
    await rejected(send('k'), /^send\(\) is idempotent .* without its instance/);
  });

  it('in its constructor', async () => {
    let early: Promise<unknown> = Promise.resolve();
    @Injectable()
    class Hasty extends Mailer {
      constructor() {
        super();
        early = rejection(this.send('k'));
      }
    }
    await started({ providers: [Hasty] });
    expect(await early).toBeInstanceOf(IdempotencyOptionsError);
  });
});
