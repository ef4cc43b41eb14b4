/**
 * `import type` of a class that Nest injects compiles, but emits `Function` as the parameter's metadata:
 * the injection then fails when the application starts, not when it is built. TypeScript does not warn.
 *
 * @type {import('eslint').Rule.RuleModule}
 */
export const injectedClassIsAValue = {
  meta: {
    type: 'problem',
    docs: { description: 'An injected class is imported as a value.' },
    messages: {
      typeOnly: "Nest injects by the class itself: import '{{name}}' without `type`.",
    },
    schema: [],
  },
  create(context) {
    return {
      'MethodDefinition[kind="constructor"]'(constructor) {
        const { decorators } = constructor.parent.parent;
        if (decorators === undefined || decorators.length === 0) return;
        for (const parameter of constructor.value.params) reportTypeOnly(parameter);
      },
    };

    function reportTypeOnly(parameter) {
      // @Inject(TOKEN) says what to inject: the type does not matter.
      if (parameter.decorators.length > 0) return;
      const target = parameter.type === 'TSParameterProperty' ? parameter.parameter : parameter;
      const type = target.typeAnnotation?.typeAnnotation;
      if (type?.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier') return;
      if (!isTypeOnlyImport(type.typeName)) return;
      context.report({ node: type, messageId: 'typeOnly', data: { name: type.typeName.name } });
    }

    function isTypeOnlyImport(identifier) {
      let scope = context.sourceCode.getScope(identifier);
      let variable;
      while (scope !== null && variable === undefined) {
        variable = scope.set.get(identifier.name);
        scope = scope.upper;
      }
      return variable?.defs.some(
        ({ type, node, parent }) =>
          type === 'ImportBinding' && (node.importKind === 'type' || parent.importKind === 'type'),
      );
    }
  },
};
