import type { Type } from '@nestjs/common';
import type { IdempotencyOptions } from '../options/idempotency-options.js';
import {
  entriesOf,
  entryOf,
  hasOtherOptions,
  idempotentOptions,
  isIdempotencyInterceptor,
  type Handler,
} from './idempotent.metadata.js';
import {
  authenticatorName,
  guardsOf,
  interceptorsOf,
  isHandler,
  isSerializer,
  parsesForms,
  readDeclaration,
  type Declaration,
} from './nest-metadata.js';

/** What is known of the interceptors and guards of a handler. */
interface EnhancerFacts {
  /** Whether IdempotencyInterceptor is bound to it. */
  readonly isBound: boolean;
  /** Whether of the interceptors that decorators bind, IdempotencyInterceptor is the first. */
  readonly isOutermost: boolean;
  /** Whether this library's interceptor is global, so that all others of the handler are inside. */
  readonly isWithinGlobal: boolean;
  /** Whether an interceptor parses forms inside IdempotencyInterceptor: too late to compare them. */
  readonly parsesFormsInside: boolean;
  readonly parsesFormsOutside: boolean;
  readonly serializesInside: boolean;
  readonly serializesOutside: boolean;
  /** The names of the guards that may authenticate its callers. */
  readonly guards: readonly string[];
}

/** What is known of a method of a class by metadata and prototype. */
export interface HandlerFacts extends Declaration, EnhancerFacts {
  readonly type: Type;
  readonly property: string | symbol;
  /** `Class.method` */
  readonly name: string;
  /** What stands at the property: the method, or the wrapper of another decorator. */
  readonly handler: Handler;
  /** The reporting function that `@Idempotent()` has made of the method: the handler, or the one inside its wrappers. */
  readonly entry: Handler | undefined;
  /** The options of its own `@Idempotent()`. */
  readonly options: IdempotencyOptions | undefined;
  readonly classOptions: IdempotencyOptions | undefined;
  /** Whether its own `@Idempotent()` was applied twice, with different options. */
  readonly hasOtherOptions: boolean;
  /** Whether it has `@Idempotent()`, or its class has, which covers it. */
  readonly isProtected: boolean;
  /** Whether the handler reports when it is entered, as `@Idempotent()` makes it. */
  readonly reports: boolean;
  /** Whether Nest gets from a protected handler to its entry: a wrapper has its metadata, or a test has replaced it. */
  readonly isReached: boolean;
  /** The names of the modules that have its class. */
  readonly modules: readonly string[];
}

/** What is known of a class. */
export interface ClassFacts {
  readonly type: Type;
  readonly name: string;
  readonly options: IdempotencyOptions | undefined;
  readonly hasOtherOptions: boolean;
  /** Whether IdempotencyInterceptor is bound to the class itself. */
  readonly isBound: boolean;
  /** Its handlers and idempotent methods, inherited ones included. */
  readonly methods: readonly HandlerFacts[];
}

/** What surrounds all handlers of a class in an application. */
export interface Surroundings {
  /** The global interceptors outside of this library's. */
  readonly outside: readonly object[];
  /** Those inside, if its own is global, too. */
  readonly inside: readonly object[] | undefined;
  readonly guards: readonly object[];
  readonly modules: readonly string[];
}

const NOWHERE: Surroundings = { outside: [], inside: undefined, guards: [], modules: [] };

export function readClass(type: Type, surroundings = NOWHERE): ClassFacts {
  const methods: HandlerFacts[] = [];
  for (const { property, method, entry } of membersOf(type.prototype as object)) {
    const handler = method ?? entry;
    if (handler === undefined) continue;
    if (entry === undefined && !isHandler(handler) && !isBound(handler)) continue;
    const facts = readHandler(type, handler, surroundings, property, entry);
    // A method that is not a handler protects itself, whatever is in its place.
    const isLost = method === undefined && facts.kinds.length > 0;
    methods.push(isLost ? { ...facts, isReached: false } : facts);
  }
  return {
    type,
    name: type.name,
    options: idempotentOptions(type),
    hasOtherOptions: hasOtherOptions(type),
    isBound: isBound(type),
    methods,
  };
}

export function readHandler(
  type: Type,
  handler: Handler,
  surroundings = NOWHERE,
  property: string | symbol = (entryOf(handler) ?? handler).name,
  entry = entryOf(handler),
): HandlerFacts {
  const declaration = readDeclaration(type, handler, property);
  const { kinds, isMutation, isStream, isSafe } = declaration;
  const options = idempotentOptions(entry ?? handler);
  const classOptions = idempotentOptions(type);
  // Of GraphQL's fields, a class' decorator is for mutations only; and it is for no stream of events.
  const isCovered = kinds.includes('graphql') ? isMutation : !(isStream && isSafe);
  const reports = entryOf(handler) !== undefined;
  const enhancers = enhancerFacts(type, handler, surroundings);
  const isDeclared = kinds.length > 0 || (entry !== undefined && isHandler(entry));
  return {
    ...declaration,
    ...enhancers,
    type,
    property,
    handler,
    entry,
    name: nameOf(type, entry ?? handler),
    options,
    classOptions,
    hasOtherOptions: entry !== undefined && hasOtherOptions(entry),
    isProtected: options !== undefined || (classOptions !== undefined && isCovered),
    reports,
    isReached:
      entry === undefined || !isDeclared || (reports && enhancers.isBound) || isTestDouble(handler),
    modules: surroundings.modules,
  };
}

export function nameOf(type: Type, handler: Handler): string {
  // A wrapper may have another name.
  return `${type.name}.${(entryOf(handler) ?? handler).name}`;
}

/** Where the application declares a handler, for messages. */
export function locationOf({ name, requests, modules }: HandlerFacts): string {
  return `${name} (${[...requests, `in ${modules.join(' and ')}`].join(', ')})`;
}

/** Whether a mock of a test has replaced a method: it needs neither store nor protection. */
export function isTestDouble(method: object): boolean {
  return 'mock' in method || 'isSinonProxy' in method;
}

interface Member {
  readonly holder: object;
  readonly property: string | symbol;
  /** `undefined` where the property is not a method, or not any more. */
  readonly method: Handler | undefined;
  readonly entry: Handler | undefined;
}

/** The properties of a class, inherited ones included, except those that a derived class overrides. */
export function* membersOf(prototype: object): Generator<Member> {
  const known = new Set<string | symbol>(['constructor']);
  for (
    let holder: object | null = prototype;
    holder !== null && holder !== Object.prototype;
    holder = Object.getPrototypeOf(holder) as object | null
  ) {
    for (const property of Reflect.ownKeys(holder)) {
      if (known.has(property)) continue;
      known.add(property);
      const value: unknown = Object.getOwnPropertyDescriptor(holder, property)?.value;
      const method = typeof value === 'function' ? value : undefined;
      // By the method where it was decorated elsewhere: mixins copy methods from another class.
      const entry = entriesOf(holder).get(property) ?? entryOf(method);
      yield { holder, property, method, entry };
    }
  }
}

/** The idempotent methods of a class that are not handlers, inherited ones included, without foreign wrappers. */
export function idempotentMethods(prototype: object): Handler[] {
  return [...membersOf(prototype)].flatMap(({ method }) => entryOfMethod(method) ?? []);
}

/** The function that `@Idempotent()` made of a method; `undefined` for handlers and methods without the decorator. */
export function entryOfMethod(method: Handler | undefined): Handler | undefined {
  return method === undefined || isHandler(method) ? undefined : entryOf(method);
}

function enhancerFacts(
  type: Type,
  handler: Handler,
  { outside: globalOutside, inside: globalInside, guards }: Surroundings,
): EnhancerFacts {
  const own = interceptorsOf(handler);
  const ownIndex = own.findIndex(isIdempotencyInterceptor);
  const inside = own.slice(Math.max(0, ownIndex));
  const outside = [...interceptorsOf(type), ...own.slice(0, Math.max(0, ownIndex))];
  const isWithinGlobal = globalInside !== undefined;
  return {
    isBound: ownIndex >= 0,
    isOutermost: ownIndex === 0 && outside.length === 0,
    isWithinGlobal,
    parsesFormsInside: [...inside, ...(isWithinGlobal ? [...globalInside, ...outside] : [])].some(
      parsesForms,
    ),
    parsesFormsOutside: !isWithinGlobal && outside.some(parsesForms),
    serializesInside: inside.some(isSerializer),
    // Whether a microservice has a configuration of its own, so that the one on the route counts, cannot be determined.
    serializesOutside: [...globalOutside, ...outside].some(isSerializer),
    guards: [...guards, ...guardsOf(type), ...guardsOf(handler)].flatMap(authenticatorName),
  };
}

function isBound(target: Handler): boolean {
  return interceptorsOf(target).some(isIdempotencyInterceptor);
}
