import {
  Controller,
  Get,
  Inject,
  Post,
  Req,
  Res,
  UseFilters,
  UseGuards,
  VERSION_NEUTRAL,
  type CanActivate,
  type Type,
} from '@nestjs/common';
import { hasCode, isIdempotencyError, STORE_ERROR_TYPES } from '../core/errors/errors.js';
import { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import type { ActionResult } from '../core/operator/operator.js';
import type { OperatorAction } from '../core/operator/operator-options.js';
import type { RecordRef } from '../core/operator/record-sheet.js';
import type { Duration } from '../core/options/duration.js';
import { RECORD_STATES, type RecordKey } from '../core/record/record.js';
import { isRecordKey } from '../core/record/record-key.js';
import { IdempotencyRecords, type RecordList } from '../nest/idempotency-records.js';
import { AccessGuard } from './access.guard.js';
import { BULK, DROPPING, TYPED } from './actions.js';
import { CONSOLE, type ResolvedConsoleOptions } from './console-options.js';
import { ConsoleReply } from './console-reply.js';
import { fieldOf, visitOf, type ConsoleRequest } from './console-request.js';
import type { Frame } from './layout.js';
import { LIVE_SECONDS, nowPage } from './now-page.js';
import { about, recordPage, resultPage, type Offered } from './record-page.js';
import { abandonedPage, auditPage, bulkPage, findPage } from './list-pages.js';
import { RecentEvents } from './recent-events.js';
import { Refusal } from './refusal.js';
import { STYLE } from './style.js';

/** How many pages of this process look through the store at a time. */
const MAX_SCANS = 2;

/** As many as an operator looks through on one page. */
const ON_A_PAGE = 100;

/** The routes: each takes what it needs from the request, asks `IdempotencyRecords`, and sends a page. */
class ConsoleController {
  private scans = 0;

  constructor(
    private readonly records: IdempotencyRecords,
    private readonly meter: IdempotencyMeter,
    private readonly recent: RecentEvents,
    private readonly reply: ConsoleReply,
    @Inject(CONSOLE) private readonly options: ResolvedConsoleOptions,
  ) {}

  @Get()
  home(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    return this.now(request, response);
  }

  @Get('now')
  async now(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    let status = 200;
    // The process' own numbers are there without the store, too.
    const abandoned = await this.abandonedFrom('').catch((error: unknown) => {
      const refusal = refusalOf(error);
      status = refusal.status === 429 ? 200 : refusal.status;
      return refusal.message;
    });
    const isLive = fieldOf(request.query, 'every') !== '';
    const page = nowPage(frameOf(request), this.meter, this.recent, abandoned, isLive);
    this.reply.page(response, status, page, isLive ? LIVE_SECONDS : undefined);
  }

  @Get('find')
  find(@Req() request: ConsoleRequest, @Res() response: unknown): void {
    this.reply.page(response, 200, findPage(frameOf(request), this.operations(), undefined));
  }

  /** By a form, so that neither key nor caller is in an address, which logs have. */
  @Post('find')
  async found(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    const { key, scope, operation } = fieldsOf(request, 'key', 'scope', 'operation');
    const parts = scope.split(/\r?\n/).filter((part) => part !== '');
    let status = 200;
    const found = await this.records
      .find({
        key,
        ...(parts.length > 0 && { scope: parts }),
        operation: operation === '' ? undefined : operation,
      })
      .catch((error: unknown) => {
        const refusal = refusalOf(error);
        status = refusal.status;
        return refusal.message;
      });
    this.reply.page(response, status, findPage(frameOf(request), this.operations(), found));
  }

  @Get('abandoned')
  async abandoned(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    const here = fieldOf(request.query, 'cursor');
    const areChosen = fieldOf(request.query, 'chosen') !== '';
    const may = this.offered(request);
    const actions = BULK.filter((action) => may?.has('bulk') === true && may.has(action));
    const list = await asked(this.abandonedFrom(here));
    const page = abandonedPage(frameOf(request), list, { actions, areChosen, here });
    this.reply.page(response, 200, page);
  }

  @Post('abandoned/:action')
  async several(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    // The guard has checked that it is one, and permitted.
    const action = request.params.action as OperatorAction;
    const { reason } = fieldsOf(request, 'reason');
    const records = chosenIn(request.body as object);
    const { actor } = operatorOf(request);
    const results: ActionResult[] = [];
    let why: string | undefined;
    let status = 200;
    try {
      const acts = this.records.run({ action, records }, { actor, reason });
      for await (const result of acts) results.push(result);
    } catch (error) {
      ({ message: why, status } = refusalOf(error));
    }
    const page = bulkPage(frameOf(request), action, results, records.length, why);
    this.reply.page(response, status, page);
  }

  @Get('audit')
  audit(@Req() request: ConsoleRequest, @Res() response: unknown): void {
    this.reply.page(response, 200, auditPage(frameOf(request), this.recent.acts()));
  }

  @Get('console.css')
  style(@Res() response: unknown): void {
    this.reply.style(response, STYLE);
  }

  @Get('records/:recordKey')
  async record(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    const recordKey = recordKeyOf(request);
    const sheet = await asked(this.records.explain(recordKey));
    if (sheet === undefined) {
      throw new Refusal(404, 'No record', 'There is no such record, or it has expired.');
    }
    const events = this.recent.of(recordKey);
    const page = recordPage(frameOf(request), sheet, events, this.offered(request), Date.now());
    this.reply.page(response, 200, page);
  }

  @Post('records/:recordKey/:action')
  async act(@Req() request: ConsoleRequest, @Res() response: unknown): Promise<void> {
    const recordKey = recordKeyOf(request);
    // The guard has checked that it is one, and permitted.
    const action = request.params.action as OperatorAction;
    const { may } = operatorOf(request);
    const result = await asked(this.done(action, recordKey, request));
    const frame = frameOf(request);
    const sheet = may.has('read') ? await asked(this.records.explain(recordKey)) : undefined;
    const content =
      sheet &&
      about(frame.root, sheet, this.recent.of(recordKey), this.offered(request), Date.now());
    const status = result.kind === 'ok' || result.kind === 'already' ? 200 : 409;
    this.reply.page(response, status, resultPage(frame, result, content));
  }

  private async done(
    action: OperatorAction,
    recordKey: RecordKey,
    request: ConsoleRequest,
  ): Promise<ActionResult> {
    const fields = fieldsOf(
      request,
      'state',
      'fence',
      'reason',
      'retention',
      'nothingHappened',
      'evenIfRunning',
      'typed',
    );
    const evenIfRunning = fields.evenIfRunning !== '';
    if (
      (evenIfRunning || DROPPING.includes(action)) &&
      fields.typed !== recordKey.slice(0, TYPED)
    ) {
      throw new Refusal(
        400,
        'Not confirmed',
        `Nothing was done: type the first ${String(TYPED)} characters of the record's name to confirm it.`,
      );
    }
    const ref: RecordRef = { recordKey, expected: seenIn(fields) };
    const { actor } = operatorOf(request);
    return this.records.act(action, ref, {
      actor,
      reason: fields.reason,
      evenIfRunning,
      nothingHappened: fields.nothingHappened !== '',
      retention: fields.retention === '' ? undefined : (fields.retention as Duration),
    });
  }

  private async abandonedFrom(cursor: string): Promise<RecordList> {
    if (this.scans >= MAX_SCANS) {
      throw new Refusal(
        429,
        'Busy',
        `${String(MAX_SCANS)} pages of this process are looking through the store. Try again in a moment.`,
      );
    }
    this.scans += 1;
    try {
      return await this.records.list({ lease: 'over' }, { cursor, limit: ON_A_PAGE });
    } finally {
      this.scans -= 1;
    }
  }

  private operations(): string[] {
    return [...this.meter.read().operations.keys()].sort();
  }

  private offered(request: ConsoleRequest): Offered | undefined {
    return this.options.readOnly ? undefined : operatorOf(request).may;
  }
}

/**
 * A controller of its own for each registration: Nest reads path and guards off the class.
 * @param decorators - of the application, on the class.
 */
export function consoleController(
  path: string,
  guards: readonly (Type<CanActivate> | CanActivate)[],
  decorators: readonly ClassDecorator[],
): Type<object> {
  class IdempotencyConsoleController extends ConsoleController {}
  // As ApiExcludeController of @nestjs/swagger, which need not be installed.
  Reflect.defineMetadata('swagger/apiExcludeController', [true], IdempotencyConsoleController);
  Reflect.decorate(
    [
      ...decorators,
      Controller({ path, version: VERSION_NEUTRAL }),
      UseGuards(...guards, AccessGuard),
      UseFilters(ConsoleReply),
    ],
    IdempotencyConsoleController,
  );
  return IdempotencyConsoleController;
}

function operatorOf(request: ConsoleRequest) {
  const { operator } = visitOf(request);
  if (operator === undefined) throw new Error('The guard of the console has admitted nobody.');
  return operator;
}

function frameOf(request: ConsoleRequest): Frame {
  return { root: visitOf(request).root, actor: operatorOf(request).actor };
}

function recordKeyOf({ params: { recordKey = '' } }: ConsoleRequest): RecordKey {
  if (isRecordKey(recordKey)) return recordKey;
  throw new Refusal(404, 'No record', 'This is not the name of a record.');
}

function fieldsOf<const Name extends string>(
  { body }: ConsoleRequest,
  ...names: readonly Name[]
): Readonly<Record<Name, string>> {
  if (typeof body !== 'object' || body === null) {
    throw new Refusal(
      415,
      'No form',
      'The application has read no form. Its body parser has to be on for "application/x-www-form-urlencoded".',
    );
  }
  const entries = names.map((name) => [name, fieldOf(body, name)] as const);
  return Object.fromEntries(entries) as Record<Name, string>;
}

/** What was chosen of a list: a field each, with the name of the record. */
function chosenIn(body: object): RecordRef[] {
  const records = Object.keys(body)
    .filter(isRecordKey)
    .map((recordKey): RecordRef => {
      const [state = '', fence = ''] = fieldOf(body, recordKey).split(' ');
      return { recordKey, expected: seenIn({ state, fence }) };
    });
  if (records.length > 0 && records.length <= ON_A_PAGE) return records;
  throw new Refusal(
    400,
    'Not chosen',
    `Nothing was done: choose 1 to ${String(ON_A_PAGE)} records of the list.`,
  );
}

/** What the operator saw, as the form has it. */
function seenIn({
  state,
  fence,
}: {
  readonly state: string;
  readonly fence: string;
}): RecordRef['expected'] {
  const known = RECORD_STATES.find((each) => each === state);
  const number = Number(fence);
  if (known === undefined || !/^\d+$/.test(fence) || !Number.isSafeInteger(number)) {
    throw new Refusal(
      400,
      'Not a form of this console',
      'Nothing was done: open the record again.',
    );
  }
  return { state: known, fence: number };
}

async function asked<Result>(answer: Promise<Result>): Promise<Result> {
  return answer.catch((error: unknown) => {
    throw refusalOf(error);
  });
}

/** @throws what is no answer of the library: the application's filters report it. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (!isIdempotencyError(error)) throw error;
  if (hasCode(error, 'idempotency_options_invalid'))
    return new Refusal(400, 'Not possible', error.message);
  if (hasCode(error, 'idempotency_audit_unavailable')) {
    return new Refusal(
      503,
      'The audit is unavailable',
      'Nothing was done: no act without its audit.',
    );
  }
  if (STORE_ERROR_TYPES.some((type) => type === error.code)) {
    return new Refusal(
      503,
      'The store gave no reply',
      `The store gave no reply (${error.code}). What was asked of it may have been done, or not: look again before you repeat it.`,
    );
  }
  throw error;
}
