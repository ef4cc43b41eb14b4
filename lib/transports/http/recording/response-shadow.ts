import type { ServerResponse } from 'node:http';
import type { ResponseRecorder } from './response-recorder.js';
import {
  BENEATH,
  CLASS_METHODS,
  METHODS,
  NAMES,
  SHADOW,
  STATE,
  under,
  type Shadow,
  type Shadowed,
  type ShadowedResponse,
} from './shadow-methods.js';

/**
 * Methods laid over those of one response, in front of whatever middleware has put there. They find
 * their recorder on the response itself, so none is made anew for a request. A response of a class that has them needs
 * no more than that.
 */
export class ResponseShadow implements Shadow {
  readonly covered: PropertyDescriptorMap = {};
  isActive = true;
  /** What lies on the response itself; the other methods are its class'. */
  private readonly laid: Partial<Record<keyof Shadowed, unknown>> = {};
  private readonly hasOwnState: boolean;

  constructor(
    private readonly response: ShadowedResponse,
    readonly recorder: ResponseRecorder,
  ) {
    for (const name of NAMES) {
      if ((response[name] as unknown) === CLASS_METHODS[name]) continue;
      const before = Object.getOwnPropertyDescriptor(response, name);
      // Some put back what they have found, which was ours.
      if (before !== undefined && before.value !== METHODS[name]) this.covered[name] = before;
      this.laid[name] = METHODS[name];
    }
    this.hasOwnState = response[BENEATH] === undefined;
    if (this.hasOwnState) dropLayout(response);
    response[SHADOW] = this;
    Object.assign(response, this.laid);
    if (this.hasOwnState) Object.defineProperties(response, STATE);
  }

  isLaid(name: keyof Shadowed): boolean {
    return this.laid[name] !== undefined;
  }

  /**
   * Gives the response back what it had. What others have laid over it meanwhile stays, and reaches what
   * lies under the shadow through it.
   */
  remove(): void {
    const { response, covered } = this;
    this.isActive = false;
    for (const name of Object.keys(this.laid) as (keyof Shadowed)[]) {
      if (Object.getOwnPropertyDescriptor(response, name)?.value !== METHODS[name]) continue;
      const before = covered[name];
      if (before === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, before);
    }
    if (!this.hasOwnState) return;
    for (const name of Object.keys(STATE)) Reflect.deleteProperty(response, name);
  }

  /** The method that lies under the shadow. */
  under<Name extends keyof Shadowed>(name: Name): Shadowed[Name] {
    return under(this.response, name);
  }
}

const DELETED = Symbol('nestjs-idempotency.deleted');

/**
 * V8 copies the layout of a response, whose prototype Express has changed, with every property that is added. Once a
 * property was deleted that is not the latest, it keeps none, and the ten that follow cost a third. The response comes to
 * that all the same when they are removed.
 */
function dropLayout(response: ServerResponse): void {
  Object.assign(response, { [DELETED]: true, [SHADOW]: undefined });
  Reflect.deleteProperty(response, DELETED);
}
