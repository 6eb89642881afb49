await Module({ arguments: process.argv.slice(2) });
