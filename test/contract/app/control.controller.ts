import { Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import { Public } from './caller.guard.js';
import { scenarioNamed } from './scenario.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Traces } from './traces.js';

/** How the suite reads what happened, and controls what happens next. */
@Controller('control')
@Public()
export class ControlController {
  constructor(
    private readonly store: FaultyStore,
    private readonly traces: Traces,
  ) {}

  @Get('scenarios/:name')
  counts(@Param('name') name: string) {
    const { arrivals, executions, disconnects } = scenarioNamed(name);
    return { arrivals, executions, disconnects };
  }

  @Post('scenarios/:name/close-gate')
  @HttpCode(204)
  closeGate(@Param('name') name: string): void {
    scenarioNamed(name).closeGate();
  }

  @Post('scenarios/:name/open-gate')
  @HttpCode(204)
  openGate(@Param('name') name: string): void {
    scenarioNamed(name).openGate();
  }

  @Post('scenarios/:name/fire-timeout')
  @HttpCode(204)
  timeOut(@Param('name') name: string): void {
    scenarioNamed(name).timeOut();
  }

  @Post('scenarios/:name/forbid/:caller')
  @HttpCode(204)
  forbid(@Param('name') name: string, @Param('caller') caller: string): void {
    scenarioNamed(name).forbidden.add(caller);
  }

  @Post('scenarios/:name/permit/:caller')
  @HttpCode(204)
  permit(@Param('name') name: string, @Param('caller') caller: string): void {
    scenarioNamed(name).forbidden.delete(caller);
  }

  @Post('store/cut')
  @HttpCode(204)
  cut(): void {
    this.store.always(unavailable, 'begin', 'extend', 'complete', 'release', 'inspect');
  }

  @Post('store/restore')
  @HttpCode(204)
  repair(): void {
    this.store.heal();
  }

  @Get('traces')
  abandoned() {
    return this.traces.all();
  }
}
