import { Controller, HttpException, Post, type PipeTransform, type Type } from '@nestjs/common';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { Around, givingUp } from '../../../support/http/around.js';
import { InScenario, type Scenario } from '../../../support/http/scenario.js';
import { writeInTransaction, type OtherDecorator } from './packages.js';

export const LEASE_MS = 60_000;

/** The position of the other decorator. */
export interface Place {
  /** Between `@Post()` and `@Idempotent()`. */
  readonly above?: boolean;
  /** Above `@Post()`. */
  readonly onTop?: boolean;
  /** Below `@Idempotent()`. */
  readonly below?: boolean;
  /** `@Idempotent()` is on the class. */
  readonly onClass?: boolean;
}

/** Rejects the first request of a scenario. */
class RejectsFirst implements PipeTransform<Scenario, Scenario> {
  transform(scenario: Scenario): Scenario {
    if (scenario.notes.push('piped') === 1) throw new HttpException('rejected by a pipe', 400);
    return scenario;
  }
}

const nothing: MethodDecorator & ClassDecorator = () => undefined;

/** Its name ends with its path. Each route writes one row, as users of the decorator do, or in the operation's transaction. */
export function chargesController(
  path: string,
  { decorate, write }: OtherDecorator,
  { above = false, onTop = false, below = false, onClass = false }: Place,
  transactional: boolean,
): Type {
  const where = (isThere: boolean) => (isThere ? decorate() : nothing);
  const idempotent = (options?: IdempotencyOptions): MethodDecorator =>
    onClass && options === undefined
      ? nothing
      : Idempotent({ transaction: transactional, ...options });
  const onTakeover = () => ({ value: { execution: 'found' } });

  async function charge(scenario: Scenario) {
    const execution = scenario.started.add();
    await (transactional ? writeInTransaction : write)({ key: scenario.key, execution });
    await scenario.gate.pass();
    if (scenario.planned(execution) === 'decline') throw new HttpException({ execution }, 402);
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }

  @Controller(path)
  @(onClass ? Idempotent({ transaction: transactional }) : nothing)
  class ChargesController {
    @where(onTop)
    @Post('charges')
    @where(above)
    @idempotent()
    @where(below)
    async charge(@InScenario() scenario: Scenario) {
      return charge(scenario);
    }

    @where(onTop)
    @Post('timed')
    @Around(givingUp)
    @where(above)
    @idempotent()
    @where(below)
    async timed(@InScenario() scenario: Scenario) {
      return charge(scenario);
    }

    @where(onTop)
    @Post('piped')
    @where(above)
    @idempotent({ outcome: () => true })
    @where(below)
    async piped(@InScenario(RejectsFirst) scenario: Scenario) {
      return charge(scenario);
    }

    @where(onTop)
    @Post('recovered')
    @where(above)
    @idempotent({ lease: { duration: LEASE_MS, onTakeover } })
    @where(below)
    async recovered(@InScenario() scenario: Scenario) {
      return charge(scenario);
    }
  }
  return Object.defineProperty(ChargesController, 'name', { value: `ChargesController${path}` });
}
