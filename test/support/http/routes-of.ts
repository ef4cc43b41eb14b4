import { Controller, Post, Res, type Type } from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';
import { InScenario, type Scenario } from './scenario.js';

type Handler = (scenario: Scenario, reply: any) => unknown;

/** What a method does; and before it, from top to bottom, what stands above the method. */
type Route = Handler | readonly [...decorators: MethodDecorator[], handler: Handler];

type AfterEffect = (execution: number, reply: any) => unknown;

/** The effect, and the number of its execution as the response. */
export const respond: Handler = (scenario) => scenario.response();

/** The effect, and then what is left to do. */
export const after =
  (rest: AfterEffect): Handler =>
  async (scenario, reply) =>
    rest(await scenario.run(), reply);

/** The same with the framework's response, which is left to the framework to send. */
export const withReply = (rest: AfterEffect): readonly [MethodDecorator, Handler] => [
  (target, name) => Res({ passthrough: true })(target, name, 1),
  after(rest),
];

/** `@Res()` for the handler's second parameter. */
export const InjectsReply: MethodDecorator = (target, name) => Res()(target, name, 1);

/** The same with the framework's response, which the handler sends itself. */
export const native = (rest: AfterEffect): readonly [MethodDecorator, Handler] => [
  InjectsReply,
  after(rest),
];

/**
 * A controller whose methods are named by their paths, to which a POST is sent.
 *
 * @param decorators - of the class, besides `@Controller()`.
 */
export function controllerOf(
  name: string,
  routes: Readonly<Record<string, Route>>,
  ...decorators: ClassDecorator[]
): Type {
  @Controller()
  class Routes {}
  // Operations are named by it.
  Object.defineProperty(Routes, 'name', { value: name });
  const { prototype } = Routes;
  for (const [path, route] of Object.entries(routes)) {
    const above = [route].flat() as MethodDecorator[];
    const handler = above.pop() as unknown as Handler;
    // A function of its own, which carries what the decorators note.
    const value = (...args: Parameters<Handler>) => handler(...args);
    Object.defineProperty(prototype, path, { value, configurable: true, writable: true });
    InScenario()(prototype, path, 0);
    const method = Object.getOwnPropertyDescriptor(prototype, path)!;
    const decorated = Reflect.decorate([Post(path), ...above], prototype, path, method);
    Object.defineProperty(prototype, path, decorated);
  }
  return Reflect.decorate(decorators, Routes) as Type;
}

/** The paths of a controller's routes, so that a table of tests can go through all of them. */
export function routesOf(controller: Type): string[] {
  const handlers = Object.entries(Object.getOwnPropertyDescriptors(controller.prototype));
  return handlers
    .filter(([name]) => name !== 'constructor')
    .map(([, { value }]) => `/${String(Reflect.getMetadata(PATH_METADATA, value as object))}`);
}
