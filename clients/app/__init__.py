"""The App: asynchronous functions over events, which become one plan of streams.

app.py            what a program declares: the app, its agents and tables
agents.py         an agent: its function, looked at before anything runs
compiler.py       the plan that agents make
events.py         rows of columns as typed events, and events as rows
tables.py         values by key, which agents read and write
agent_process.py  an agent's function in a task: events in, rows out, tables between
driver.py         the agents of an app in a unit test, event by event
"""
