/**
 * What playwright-core's types mention of the DOM. The library that declares all of it would give every test
 * the globals of a browser; the tests use pages through locators, and need only the names.
 */
type Node = object;
type HTMLElement = object;
type SVGElement = object;
type HTMLElementTagNameMap = Record<string, object>;
