import 'reflect-metadata';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { memoryStore } from 'nestjs-idempotency/memory';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import type { Platform } from '../../support/http/combinations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { chargesController, LEASE_MS, type Place } from './support/charges.controller.js';
import {
  clsModule,
  committed,
  connectPackages,
  otherDecorators,
  unitOfWork,
  type OtherDecorator,
} from './support/packages.js';

// Jest cannot load CommonJS packages that require() Nest 12, so applications and clients run in this process. It
// prints one line with the results of one decorator in one place: each is a controller of its own in the
// applications of its platform.

const PLATFORMS: readonly Platform[] = ['express', 'fastify'];

const PLACES: Readonly<Record<string, Place>> = {
  'between @Post() and @Idempotent()': { above: true },
  'above @Post()': { onTop: true },
  'below @Idempotent()': { below: true },
  'above and below @Idempotent()': { above: true, below: true },
  'above @Post(), with @Idempotent() on the class': { onTop: true, onClass: true },
  'below @Post(), with @Idempotent() on the class': { below: true, onClass: true },
};

/** One decorator in one place. */
interface Charged {
  readonly path: string;
  readonly platform: Platform;
  readonly decorator: OtherDecorator;
  readonly where: string;
  readonly place: Place;
}

const said = ({ status, replayed, json }: RawResponse) => ({ status, replayed, json });

class Stories {
  private constructor(
    private readonly app: TestApp,
    private readonly other: TestApp,
    private readonly transactional: TestApp,
    private readonly letTimePass: (ms: number) => void,
  ) {}

  static async start(platform: Platform, charged: readonly Charged[]) {
    let now = Date.UTC(2026, 0, 1);
    const memory = memoryStore({ now: () => now });
    const start = (store: IdempotencyStore, options: { readonly unitOfWork?: UnitOfWork } = {}) =>
      startApp({
        platform,
        store,
        options: { storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 }, ...options },
        controllers: charged.map(({ path, decorator, place }) =>
          chargesController(path, decorator, place, options.unitOfWork !== undefined),
        ),
        imports: [clsModule()],
      });
    const letTimePass = (ms: number) => void (now += ms);
    return new Stories(
      await start(memory),
      await start(memory),
      await start(postgresStore({ url }), { unitOfWork: unitOfWork() }),
      letTimePass,
    );
  }

  async close(): Promise<void> {
    await this.app.close();
    await this.other.close();
    await this.transactional.close();
  }

  async of({ path }: Charged) {
    const charges = `/${path}/charges`;
    return {
      kept: await this.twice(charges, []),
      declined: await this.twice(charges, ['decline']),
      piped: await this.twice(`/${path}/piped`, []),
      timedOut: await this.timedOut(`/${path}/timed`, []),
      timedOutAndFailed: await this.timedOut(`/${path}/timed`, ['fail']),
      takenOver: await this.takenOver(`/${path}/recovered`),
      transaction: {
        kept: await this.twice(charges, [], this.transactional),
        declined: await this.twice(charges, ['decline'], this.transactional),
        failed: await this.twice(charges, ['fail'], this.transactional),
      },
    };
  }

  private async twice(path: string, plan: readonly string[], app = this.app) {
    const scenario = app.scenario();
    scenario.plan = plan;
    const responses = [said(await scenario.post(path)), said(await scenario.post(path))];
    return { responses, ...(await effects(scenario)) };
  }

  /** An interceptor inside of `@Idempotent()` abandons the handler, which ends later. */
  private async timedOut(path: string, plan: readonly string[]) {
    const scenario = this.app.scenario();
    scenario.plan = plan;
    scenario.timeout.close();
    scenario.gate.close();
    const pending = scenario.start('POST', path);
    await scenario.started.reached(1);
    scenario.timeout.open();
    const first = (await pending.response).status;
    const meanwhile = (await scenario.post(path)).json.code;
    scenario.gate.open();
    for (let post = 1; post <= 500; post += 1) {
      const { status, json } = await scenario.post(path);
      if (json.code === meanwhile) continue;
      const later = json.code ?? status;
      return { first, meanwhile, later, ...(await effects(scenario)) };
    }
    throw new Error('the handler did not end');
  }

  /** The lease of an attempt in another process expires. */
  private async takenOver(path: string) {
    const [owner, taker] = [this.app.scenario(), this.other.scenario()];
    owner.gate.close();
    const pending = owner.start('POST', path);
    await owner.started.reached(1);
    this.letTimePass(LEASE_MS);
    const response = said(await taker.post(path, { key: owner.key }));
    owner.gate.open();
    await pending.response;
    return { response, executions: taker.executions };
  }
}

async function effects(scenario: Scenario) {
  return { executions: scenario.executions, committed: await committed(scenario) };
}

/** The error with which an application does not start that has this controller alone. */
async function rejected(platform: Platform, charged: Charged): Promise<object> {
  try {
    await (await Stories.start(platform, [charged])).close();
    return {};
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    return { rejected: { code, message } };
  }
}

const [url = '', round] = process.argv.slice(2);
await migrate({ url });
const disconnect = await connectPackages(url);
const all = otherDecorators.flatMap((decorator, row) =>
  Object.entries(PLACES).map(([where, place], column): Charged => {
    // The platforms alternate: each decorator and each place runs on both.
    const platform = PLATFORMS[(row + column + Number(round)) % PLATFORMS.length]!;
    return { path: `${row}-${column}`, decorator, where, place, platform };
  }),
);
const print = ({ platform, decorator, where }: Charged, reported: object) => {
  const { name, isTransaction } = decorator;
  console.log(JSON.stringify({ platform, name, where, isTransaction, ...reported }));
};
for (const platform of PLATFORMS) {
  const charged = all.filter((one) => one.platform === platform);
  const hidesMetadata = ({ decorator, place }: Charged) =>
    !decorator.copiesMetadata && (place.above === true || place.onTop === true);
  for (const one of charged.filter(hidesMetadata)) print(one, await rejected(platform, one));
  const others = charged.filter((one) => !hidesMetadata(one));
  const stories = await Stories.start(platform, others);
  for (const one of others) print(one, await stories.of(one));
  await stories.close();
}
await disconnect();
