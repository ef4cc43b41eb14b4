import {
  Inject,
  Injectable,
  Logger,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { errorTypeOf } from '../core/errors/errors.js';
import {
  CONSOLE,
  PERMISSIONS,
  type ConsolePermission,
  type ResolvedConsoleOptions,
} from './console-options.js';
import {
  fieldOf,
  headerOf,
  rootOf,
  setVisit,
  type Admitted,
  type ConsoleRequest,
} from './console-request.js';
import { ACTIONS, BULK } from './actions.js';
import { Refusal } from './refusal.js';

const MAX_ACTOR = 500;

/** How many kinds of failures of `operator` are logged, each once. */
const MAX_LOGGED = 20;

/** Runs after the application's guards: who is it, was the form this console's, and may he do it? Else nothing runs. */
@Injectable()
export class AccessGuard implements CanActivate {
  private readonly logger = new Logger('Idempotency');
  private readonly logged = new Set<string>();

  constructor(@Inject(CONSOLE) private readonly options: ResolvedConsoleOptions) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<ConsoleRequest>();
    const path: unknown = Reflect.getMetadata('path', context.getHandler());
    const root = rootOf(request, String(path).split('/').filter(Boolean).length);
    setVisit(request, { root });
    const operator = await this.operatorOf(context);
    const isForm = request.method === 'POST';
    if (isForm) this.checkSource(request);
    for (const permission of this.neededFor(request, isForm)) {
      if (operator.may.has(permission)) continue;
      throw new Refusal(403, 'Not permitted', `This needs the permission "${permission}".`);
    }
    setVisit(request, { root, operator });
    return true;
  }

  private neededFor(request: ConsoleRequest, isForm: boolean): readonly ConsolePermission[] {
    const named = request.params.action;
    if (named === undefined) return ['read'];
    const isBulk = request.params.recordKey === undefined;
    const action = (isBulk ? BULK : ACTIONS).find((each) => each === named);
    if (!isForm || action === undefined || this.options.readOnly) {
      throw new Refusal(404, 'Not found', 'There is no such page.');
    }
    if (isBulk) return [action, 'bulk'];
    return fieldOf(request.body, 'evenIfRunning') === '' ? [action] : [action, 'even_if_running'];
  }

  private async operatorOf(context: ExecutionContext): Promise<Admitted> {
    try {
      const given: unknown = await this.options.operator(context);
      const { actor, may } = (given ?? {}) as Readonly<Record<string, unknown>>;
      if (typeof actor !== 'string' || actor.trim() === '' || actor.length > MAX_ACTOR) {
        throw new TypeError('no actor');
      }
      if (!Array.isArray(may) || !may.every((each) => PERMISSIONS.includes(each as never))) {
        throw new TypeError('an unknown permission');
      }
      return { actor, may: new Set(may as ConsolePermission[]) };
    } catch (error) {
      this.report(error);
      throw new Refusal(403, 'Not permitted', 'The application does not say who you are.');
    }
  }

  /** Not the message of an error of the application: it may have data. */
  private report(error: unknown): void {
    const known =
      error instanceof TypeError && /^(?:no actor|an unknown permission)$/.exec(error.message);
    const what = known
      ? `returned ${known[0]}`
      : `failed (${errorTypeOf(error) ?? 'unknown error'})`;
    if (this.logged.has(what) || this.logged.size >= MAX_LOGGED) return;
    this.logged.add(what);
    this.logger.warn(
      `The function of the option "operator" of IdempotencyConsoleModule ${what}: the request got 403, and so do others of this kind, which are not logged. It has to return { actor, may }; the permissions are ${PERMISSIONS.join(', ')}.`,
    );
  }

  /** A form that another site's page sends has the operator's cookies, too. */
  private checkSource(request: ConsoleRequest): void {
    const site = headerOf(request, 'sec-fetch-site');
    const isOwn = site === undefined ? this.hasOwnOrigin(request) : site === 'same-origin';
    if (isOwn) return;
    throw new Refusal(
      403,
      'Not from this console',
      'The form was not sent by a page of this console. Open the record again, and send it from there. Behind a proxy that changes the Host header, name the console\'s origin in "trustedOrigins".',
    );
  }

  private hasOwnOrigin(request: ConsoleRequest): boolean {
    const origin = headerOf(request, 'origin');
    // No browser sends credentials of its own accord in this header.
    if (origin === undefined) return headerOf(request, 'authorization') !== undefined;
    if (this.options.trustedOrigins.includes(origin)) return true;
    const host = headerOf(request, ':authority') ?? headerOf(request, 'host');
    return URL.canParse(origin) && new URL(origin).host === host;
  }
}
