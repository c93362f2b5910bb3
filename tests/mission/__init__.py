"""What five systems say of themselves, statement by statement: each test has the name of the sentence that it checks.

``@pytest.mark.statement(ORIGIN, SETTING, FIGURE)`` says where the sentence is from, the setting here, and the figure
that the test finds in virtual time. ``make docs`` writes docs/statements.md from the names and the marks.
"""
