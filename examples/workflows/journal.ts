import type { Redis } from 'ioredis';

export interface StepContext {
  readonly idempotencyKey: string;
}

type Work<Value> = (step: StepContext) => Promise<Value>;

export interface WorkflowContext {
  step<Value>(
    name: string,
    work: Work<Value>,
    options?: { compensate?: (value: Value, step: StepContext) => Promise<unknown> },
  ): Promise<Value>;
}

/**
 * Stands for an instance of `@nestjs/workflows`, which cannot be installed here: a step whose value is in the journal does
 * not run, one that died before that runs again with the same key, and a failure compensates what is done, last first.
 */
export class Journal implements WorkflowContext {
  private readonly undo: (() => Promise<unknown>)[] = [];

  /** @param reached - is awaited between the end of a step and its entry. */
  constructor(
    private readonly redis: Redis,
    private readonly instance: string,
    private readonly reached: (name: string) => Promise<unknown> = () => Promise.resolve(),
  ) {}

  async step<Value>(
    name: string,
    work: Work<Value>,
    { compensate }: { compensate?: (value: Value, step: StepContext) => Promise<unknown> } = {},
  ): Promise<Value> {
    const value = await this.entry(name, work);
    if (compensate !== undefined) {
      this.undo.unshift(() => this.entry(`undo ${name}`, (step) => compensate(value, step)));
    }
    return value;
  }

  async run<Value>(workflow: (context: WorkflowContext) => Promise<Value>) {
    try {
      return { completed: await workflow(this) };
    } catch (error) {
      for (const each of this.undo) await each();
      return { failed: (error as Error).message };
    }
  }

  private async entry<Value>(name: string, work: Work<Value>): Promise<Value> {
    const written = await this.redis.hget(`journal:${this.instance}`, name);
    if (written !== null) return JSON.parse(written) as Value;
    const value = await work({ idempotencyKey: `${this.instance}:${name}` });
    await this.reached(name);
    await this.redis.hset(`journal:${this.instance}`, name, JSON.stringify(value ?? null));
    return value;
  }
}
